//! Longest matches of address prefixes.
