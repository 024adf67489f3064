"""Data sets, class-incremental streams, and the images and labels of users."""
