//! The Click language: from text to a flat graph.
