//! The fast path against the decisions themselves, one packet at a time.
