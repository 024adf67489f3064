"""Networks of everbit as files of other frameworks (docs/export.md)."""
