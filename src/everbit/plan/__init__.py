"""`everbit plan`: what a learner would take of a device, before there is one (docs/plan.md)."""
