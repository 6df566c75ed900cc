//! `#[derive(Arguments)]`: an element's configuration and handlers, from the struct that holds
//! them. `#[derive(DropReason)]`: the reasons it drops packets for, from an enum.
//!
//! Used as `linerate_graph::Arguments` and `linerate_graph::DropReason`, where the attributes are
//! documented. Generated code names nothing but that crate. The meaning of arguments, and the errors
//! of wrong ones, are not decided here.
#![forbid(unsafe_code)]

mod attributes;
mod drop_reason;
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

/// See `linerate_graph::DropReason`.
#[proc_macro_derive(DropReason, attributes(from))]
pub fn drop_reason(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    drop_reason::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
