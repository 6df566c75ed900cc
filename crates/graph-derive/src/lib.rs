//! `#[derive(Arguments)]`: an element's configuration and handlers, from the struct that holds
//! them.
//!
//! Used as `linerate_graph::Arguments`, where the attributes are documented. Generated code names
//! nothing but that crate. The meaning of arguments, and the errors of wrong ones, are not decided
//! here.
#![forbid(unsafe_code)]

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// See `linerate_graph::Arguments`.
#[proc_macro_derive(Arguments, attributes(arguments, arg, handler, group, init))]
pub fn arguments(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let read = attributes::Declaration::read(&input);
    expand::expand(&input, read).into()
}
