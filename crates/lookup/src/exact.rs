//! Exact matches of whole keys.
