"""The program that reads HDF5 files, alone in its folder: what lies beside a program can hide Python's own modules."""
