//! `#[derive(DropReason)]`: the texts and numbers of drop reasons, from the enum or unit struct.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Path, Result, Token,
    punctuated::Punctuated,
};

use crate::attributes::{documentation, named};

/// A reason: its value, its text, and the reasons of other types that are counted under it.
struct Reason {
    ident: Ident,
    value: TokenStream,
    text: TokenStream,
    from: Vec<Path>,
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a drop reason has no parameters"));
    }
    let reasons = match &input.data {
        Data::Enum(data) => data.variants.iter().map(variant).collect::<Result<Vec<_>>>()?,
        Data::Struct(data) if matches!(data.fields, Fields::Unit) => {
            vec![Reason::read(&input.ident, quote!(Self), &input.attrs)?]
        }
        _ => {
            let text = "drop reasons are the variants of an enum, or a struct without fields";
            return Err(Error::new_spanned(&input.ident, text));
        }
    };
    distinct(&reasons)?;
    let ident = &input.ident;
    let texts = reasons.iter().map(|reason| &reason.text);
    let index = match &input.data {
        Data::Enum(_) if reasons.is_empty() => quote!(match self {}),
        Data::Enum(_) => quote!(self as usize),
        _ => quote!(0),
    };
    let conversions = reasons.iter().flat_map(|Reason { value, from, .. }| {
        from.iter().map(move |from| {
            quote! {
                #[automatically_derived]
                impl ::std::convert::From<#from> for #ident {
                    #[inline(always)]
                    fn from(_: #from) -> Self {
                        #value
                    }
                }
            }
        })
    });
    Ok(quote! {
        #[automatically_derived]
        impl ::linerate_graph::DropReason for #ident {
            const REASONS: &'static [&'static str] = &[#(#texts),*];

            #[inline(always)]
            fn index(self) -> usize {
                #index
            }
        }

        #(#conversions)*
    })
}

/// Counters are told apart by their names.
fn distinct(reasons: &[Reason]) -> Result<()> {
    for (at, reason) in reasons.iter().enumerate() {
        let text = reason.text.to_string();
        if reasons[..at].iter().any(|other| other.text.to_string() == text) {
            let text = "an earlier reason has the same text: say how this one differs";
            return Err(Error::new_spanned(&reason.ident, text));
        }
    }
    Ok(())
}

fn variant(variant: &syn::Variant) -> Result<Reason> {
    if !matches!(variant.fields, Fields::Unit) || variant.discriminant.is_some() {
        let text = "a drop reason has neither fields nor a number of its own";
        return Err(Error::new_spanned(variant, text));
    }
    let ident = &variant.ident;
    Reason::read(ident, quote!(Self::#ident), &variant.attrs)
}

impl Reason {
    fn read(ident: &Ident, value: TokenStream, attributes: &[Attribute]) -> Result<Reason> {
        let mut from = Vec::new();
        for attribute in named(attributes, "from") {
            let paths = Punctuated::<Path, Token![,]>::parse_terminated;
            from.extend(attribute.parse_args_with(paths)?);
        }
        let text = match (documentation(attributes), from.first()) {
            (Some(text), _) => LitStr::new(&text, Span::call_site()).into_token_stream(),
            (None, Some(from)) => quote!(<#from as ::linerate_graph::DropReason>::REASONS[0]),
            (None, None) => {
                let text = "a documentation comment says why packets are dropped: it is the name \
                            of the counter";
                return Err(Error::new_spanned(ident, text));
            }
        };
        Ok(Reason { ident: ident.clone(), value, text, from })
    }
}

#[cfg(test)]
mod tests {
    use super::expand;

    fn error(declaration: &str) -> String {
        expand(&syn::parse_str(declaration).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn an_error_says_what_a_drop_reason_has() {
        for (declaration, expected) in [
            ("enum R { Late }", "a documentation comment says why packets are dropped"),
            ("struct R;", "a documentation comment says why packets are dropped"),
            ("enum R { #[doc = \"late\"] Late(u8) }", "neither fields nor a number of its own"),
            ("enum R { #[doc = \"late\"] Late = 3 }", "neither fields nor a number of its own"),
            ("enum R<T> { #[doc = \"late\"] Late }", "a drop reason has no parameters"),
            ("struct R { late: u8 }", "the variants of an enum, or a struct without fields"),
            ("union R { late: u8 }", "the variants of an enum, or a struct without fields"),
            ("enum R { #[doc = \"late\"] Late, #[doc = \" late\"] Old }", "has the same text"),
            ("enum R { #[from(NoBuffer)] One, #[from(NoBuffer)] Two }", "has the same text"),
        ] {
            let error = error(declaration);
            assert!(error.contains(expected), "{declaration}: {error}");
        }
    }

    #[test]
    fn a_reason_takes_the_text_of_its_comment_before_that_of_another() {
        let text = "enum R { #[doc = \"no copy\"] #[from(NoBuffer)] NoCopy }";
        let code = expand(&syn::parse_str(text).unwrap()).unwrap().to_string();
        assert!(code.contains("[\"no copy\"]"), "{code}");
    }
}
