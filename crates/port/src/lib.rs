//! The port traits and one driver per kind of port.
