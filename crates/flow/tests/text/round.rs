//! Random flows, groups and meters: printed, and read as the same.
