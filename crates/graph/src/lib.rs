//! Configurations in Click's language and the engine that runs them.
#![forbid(unsafe_code)]

pub mod lang;
