//! Expansion of the derive to an implementation for a struct.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{DeriveInput, LitStr, spanned::Spanned};

use crate::attributes::{Argument, Declaration, Handler, Member, Reading, Source};

/// An error of the struct is emitted with an implementation without its fields, so that no second
/// error says that there is none.
pub(crate) fn expand(input: &DeriveInput, read: syn::Result<Declaration>) -> TokenStream {
    let (read, wrong) = match read {
        Ok(read) => (read, None),
        Err(error) => (Declaration::default(), Some(error.into_compile_error())),
    };
    let ident = &input.ident;
    let (generics, types, bounds) = input.generics.split_for_impl();
    let members = &read.members;
    let args = joined("args", "Arg", members.iter().filter_map(argument_part));
    let handlers = members.iter().filter_map(handler_part);
    let own = read.handlers.as_ref().map(|own| Part::Slice(quote!(&#own)));
    let handlers = joined("handlers", "Handler", handlers.chain(own));
    let values = members.iter().map(value);
    let check = read.check.as_ref().map(|check| quote!(#check(&mut made, make);));
    let made = if check.is_some() { quote!(mut made) } else { quote!(made) };
    let make = wrong.unwrap_or_else(|| {
        quote! {
            let #made = Self { #(#values),* };
            #check
            made
        }
    });
    let reads = members.iter().filter_map(read_arm);
    let writes = members.iter().filter_map(write_arm);
    let groups: Vec<&Member> =
        members.iter().filter(|member| matches!(member.source, Source::Group)).collect();
    let names: Vec<_> = groups.iter().map(|member| &member.ident).collect();
    let kinds: Vec<_> = groups.iter().map(|member| &member.ty).collect();
    let kept = members.iter().filter(|member| member.handler.as_ref().is_some_and(|h| h.kept));
    let kept = kept.map(|member| &member.ident);
    quote! {
        #[automatically_derived]
        #[allow(clippy::redundant_closure, reason = "a default may be a call without arguments")]
        impl #generics ::linerate_graph::Arguments for #ident #types #bounds {
            const FILE: &'static str = ::std::file!();
            const ARGS: &'static [::linerate_graph::Arg] = #args;
            const HANDLERS: &'static [::linerate_graph::Handler] = #handlers;

            fn from_args(make: &mut ::linerate_graph::ElementBuilder<'_>) -> Self {
                let _ = &make;
                #make
            }

            fn read_field(
                &self,
                scope: &::linerate_graph::Scope<'_>,
                handler: &str,
            ) -> ::std::result::Result<::std::string::String, ::linerate_graph::HandlerError> {
                let _ = scope;
                match handler {
                    #(#reads)*
                    #(_ if ::linerate_graph::derive::has::<#kinds>(handler) => {
                        <#kinds as ::linerate_graph::Arguments>::read_field(
                            &self.#names, scope, handler
                        )
                    })*
                    _ => ::std::result::Result::Err(
                        ::linerate_graph::HandlerError::missing(handler)
                    ),
                }
            }

            fn write_field(
                &mut self,
                scope: &::linerate_graph::Scope<'_>,
                handler: &str,
                value: &str,
            ) -> ::std::result::Result<::std::string::String, ::linerate_graph::HandlerError> {
                let _ = (scope, value);
                match handler {
                    #(#writes)*
                    #(_ if ::linerate_graph::derive::has::<#kinds>(handler) => {
                        return <#kinds as ::linerate_graph::Arguments>::write_field(
                            &mut self.#names, scope, handler, value
                        );
                    })*
                    _ => return ::std::result::Result::Err(
                        ::linerate_graph::HandlerError::missing(handler)
                    ),
                }
                #[allow(unreachable_code, reason = "where nothing is written")]
                ::std::result::Result::Ok(::std::string::String::new())
            }

            fn take_counts(&mut self, old: &mut Self) {
                #(self.#kept += ::std::mem::take(&mut old.#kept);)*
                #(<#kinds as ::linerate_graph::Arguments>::take_counts(
                    &mut self.#names, &mut old.#names
                );)*
                let _ = old;
            }
        }
    }
}

/// Declarations side by side.
enum Part {
    One(TokenStream),
    Slice(TokenStream),
}

/// All of them as one slice.
fn joined(function: &str, item: &str, parts: impl Iterator<Item = Part>) -> TokenStream {
    let parts: Vec<Part> = parts.collect();
    let ones = parts.iter().filter_map(|part| match part {
        Part::One(one) => Some(one),
        Part::Slice(_) => None,
    });
    let ones: Vec<_> = ones.collect();
    if ones.len() == parts.len() {
        return quote!(&[#(#ones),*]);
    }
    let slices = parts.iter().map(|part| match part {
        Part::One(one) => quote!(&[#one]),
        Part::Slice(slice) => slice.clone(),
    });
    let (function, item) = (format_ident!("{function}"), format_ident!("{item}"));
    quote! {{
        const PARTS: &[&[::linerate_graph::#item]] = &[#(#slices),*];
        const ALL: [::linerate_graph::#item; ::linerate_graph::derive::length(PARTS)] =
            ::linerate_graph::derive::#function(PARTS);
        &ALL
    }}
}

fn argument_part(member: &Member) -> Option<Part> {
    match &member.source {
        Source::Group => {
            let ty = &member.ty;
            Some(Part::Slice(quote!(<#ty as ::linerate_graph::Arguments>::ARGS)))
        }
        Source::State(_) => None,
        Source::Argument(argument) if argument.kind.is_some() => {
            Some(Part::One(argument.to_token_stream()))
        }
        Source::Argument(argument) => {
            let ty = value_type(member, argument);
            let text = LitStr::new(
                "its type has no `Value::KIND`: say by `kind` what people are told to write",
                ty.span(),
            );
            let check = quote_spanned!(ty.span()=> assert!(!KIND.is_empty(), #text));
            Some(Part::One(quote! {{
                const KIND: &str = <#ty as ::linerate_graph::Value>::KIND;
                const { #check };
                #argument
            }}))
        }
    }
}

/// Returns the type that the argument is read as.
fn value_type(member: &Member, argument: &Argument) -> syn::Type {
    match &argument.value {
        Reading::Maybe(inner) => inner.clone(),
        _ => member.ty.clone(),
    }
}

fn handler_part(member: &Member) -> Option<Part> {
    if let Source::Group = member.source {
        let ty = &member.ty;
        return Some(Part::Slice(quote!(<#ty as ::linerate_graph::Arguments>::HANDLERS)));
    }
    let Handler { kind, name, help, flags, .. } = member.handler.as_ref()?;
    let flags = flags.as_ref().map(|flags| quote!(.flags(#flags)));
    Some(Part::One(quote!(::linerate_graph::Handler::#kind(#name, #help) #flags)))
}

/// A field and its initial value.
fn value(member: &Member) -> TokenStream {
    let Member { ident, ty, source, .. } = member;
    let value = match source {
        Source::Group => quote!(<#ty as ::linerate_graph::Arguments>::from_args(make)),
        Source::State(Some(value)) => value.to_token_stream(),
        Source::State(None) => quote_spanned! {ty.span()=>
            <#ty as ::std::default::Default>::default()
        },
        Source::Argument(argument) => {
            let name = &argument.name;
            match &argument.value {
                Reading::Needed => quote_spanned!(ty.span()=> make.need::<#ty>(#name)),
                Reading::Maybe(inner) => quote_spanned!(ty.span()=> make.get::<#inner>(#name)),
                Reading::Or(default) => {
                    quote_spanned!(ty.span()=> make.get::<#ty>(#name).unwrap_or_else(|| #default))
                }
                Reading::Parsed(text) => {
                    quote_spanned!(ty.span()=> make.or_text::<#ty>(#name, #text))
                }
                Reading::By(function) => quote!(#function(make, #name)),
            }
        }
    };
    quote!(#ident: #value)
}

fn read_arm(member: &Member) -> Option<TokenStream> {
    let Handler { kind, name, .. } = member.handler.as_ref()?;
    let Member { ident, ty, .. } = member;
    let printed = if kind == "value" {
        quote_spanned!(ty.span()=> <#ty as ::linerate_graph::Value>::unparse(&self.#ident, scope))
    } else {
        quote_spanned!(ty.span()=> ::std::string::ToString::to_string(&self.#ident))
    };
    Some(quote!(#name => ::std::result::Result::Ok(#printed),))
}

fn write_arm(member: &Member) -> Option<TokenStream> {
    let Handler { name, .. } = member.handler.as_ref().filter(|found| found.kind == "value")?;
    let Member { ident, ty, .. } = member;
    Some(quote_spanned! {ty.span()=>
        #name => {
            self.#ident = <#ty as ::linerate_graph::Value>::parse_written(value, scope)?;
        }
    })
}
