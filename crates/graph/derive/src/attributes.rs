//! Attributes of a struct and its fields.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, ExprUnary, Field, Fields, GenericArgument,
    Ident, Lit, LitStr, Path, PathArguments, Result, Type, meta::ParseNestedMeta,
};

/// A struct.
#[derive(Default)]
pub(crate) struct Declaration {
    pub(crate) members: Vec<Member>,
    /// Function that checks all fields when they have been read.
    pub(crate) check: Option<Path>,
    /// Handlers the element carries out itself.
    pub(crate) handlers: Option<Expr>,
}

/// A field.
pub(crate) struct Member {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) source: Source,
    pub(crate) handler: Option<Handler>,
}

/// Source of a field's value.
pub(crate) enum Source {
    Argument(Box<Argument>),
    /// A struct of more arguments.
    Group,
    /// State of the element that begins so.
    State(Option<Expr>),
}

/// An argument of the configuration.
pub(crate) struct Argument {
    pub(crate) name: LitStr,
    pub(crate) help: LitStr,
    pub(crate) need: Need,
    pub(crate) late: bool,
    /// Kind of value shown to people; else that of the type.
    pub(crate) kind: Option<LitStr>,
    /// Default shown to people.
    pub(crate) shown: LitStr,
    pub(crate) value: Reading,
}

/// Whether and where it must be given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
    Keyword,
    RequiredKeyword,
}

/// Way of finding its value.
pub(crate) enum Reading {
    /// It must be given; the type's default stands in for a wrong one.
    Needed,
    /// `None` when it is not given; the type of the value inside when it is.
    Maybe(Type),
    /// An expression when it is not given, or is wrong.
    Or(Expr),
    /// A text when it is not given.
    Parsed(LitStr),
    /// A function is asked, with the name.
    By(Path),
}

/// A handler that reads the field, or writes it as well.
pub(crate) struct Handler {
    pub(crate) kind: Ident,
    pub(crate) name: LitStr,
    pub(crate) help: LitStr,
    /// Click's flags.
    pub(crate) flags: Option<LitStr>,
    /// Whether its value goes over to the element that takes its place.
    pub(crate) kept: bool,
}

impl Declaration {
    pub(crate) fn read(input: &DeriveInput) -> Result<Declaration> {
        let Data::Struct(data) = &input.data else {
            return Err(Error::new_spanned(&input.ident, "arguments are held by a struct"));
        };
        let mut read = Declaration { members: Vec::new(), check: None, handlers: None };
        for attribute in named(&input.attrs, "arguments") {
            attribute.parse_nested_meta(|meta| {
                match word(&meta)?.as_str() {
                    "check" => read.check = Some(meta.value()?.parse()?),
                    "handlers" => read.handlers = Some(meta.value()?.parse()?),
                    _ => return Err(meta.error("expected `check` or `handlers`")),
                }
                Ok(())
            })?;
        }
        let mut errors: Option<Error> = None;
        match &data.fields {
            Fields::Named(fields) => {
                for field in &fields.named {
                    match Member::read(field) {
                        Ok(member) => read.members.push(member),
                        Err(error) => match &mut errors {
                            Some(errors) => errors.combine(error),
                            None => errors = Some(error),
                        },
                    }
                }
            }
            Fields::Unit => {}
            Fields::Unnamed(fields) => {
                return Err(Error::new_spanned(fields, "arguments are fields with names"));
            }
        }
        errors.map_or(Ok(read), Err)
    }
}

impl Member {
    fn read(field: &Field) -> Result<Member> {
        let ident = field.ident.clone().ok_or_else(|| Error::new_spanned(field, "has no name"))?;
        let mut sources = Vec::new();
        for attribute in named(&field.attrs, "arg") {
            sources.push(Source::Argument(Box::new(Argument::read(attribute, field, &ident)?)));
        }
        for attribute in named(&field.attrs, "group") {
            attribute.meta.require_path_only()?;
            sources.push(Source::Group);
        }
        for attribute in named(&field.attrs, "init") {
            sources.push(Source::State(Some(attribute.parse_args()?)));
        }
        if sources.len() > 1 {
            let text = "one of `arg`, `group` and `init` says where a value comes from";
            return Err(Error::new_spanned(field, text));
        }
        let mut handlers = named(&field.attrs, "handler");
        let handler = handlers.next().map(|attribute| Handler::read(attribute, field, &ident));
        if let Some(more) = handlers.next() {
            return Err(Error::new_spanned(more, "a field has one handler"));
        }
        let source = sources.pop().unwrap_or(Source::State(None));
        Ok(Member { ident, ty: field.ty.clone(), source, handler: handler.transpose()? })
    }
}

impl Argument {
    fn read(attribute: &Attribute, field: &Field, ident: &Ident) -> Result<Argument> {
        let mut name = LitStr::new(&ident.to_string().to_uppercase(), ident.span());
        let (mut optional, mut keyword, mut required, mut late) = (false, false, false, false);
        let (mut kind, mut shown, mut help) = (None, None, None);
        let (mut default, mut stand_in, mut with) = (None::<Expr>, None::<Expr>, None);
        if !matches!(attribute.meta, syn::Meta::Path(_)) {
            attribute.parse_nested_meta(|meta| {
                match word(&meta)?.as_str() {
                    "required" => required = true,
                    "optional" => optional = true,
                    "keyword" => keyword = true,
                    "late" => late = true,
                    "name" => name = meta.value()?.parse()?,
                    "kind" => kind = Some(meta.value()?.parse()?),
                    "help" => help = Some(meta.value()?.parse()?),
                    "default" => default = Some(meta.value()?.parse()?),
                    "shown" => shown = Some(meta.value()?.parse()?),
                    "stand_in" => stand_in = Some(meta.value()?.parse()?),
                    "with" => with = Some(meta.value()?.parse()?),
                    _ => {
                        return Err(meta.error(
                            "expected `required`, `optional`, `keyword`, `late`, `name`, `kind`, \
                             `help`, `default`, `shown`, `stand_in` or `with`",
                        ));
                    }
                }
                Ok(())
            })?;
        }
        let need = match (required, optional, keyword) {
            (_, false, false) => Need::Required,
            (false, true, false) => Need::Optional,
            (false, false, true) => Need::Keyword,
            (true, false, true) => Need::RequiredKeyword,
            _ => {
                let text = "it is `required`, `optional`, `keyword` or `required, keyword`";
                return Err(Error::new_spanned(attribute, text));
            }
        };
        let needed = matches!(need, Need::Required | Need::RequiredKeyword);
        if needed && let Some(default) = &default {
            let text = "what must be given has no `default`: say `optional`, `keyword`, or \
                        `stand_in` for what holds when it is wrong";
            return Err(Error::new_spanned(default, text));
        }
        if !needed && let Some(stand_in) = &stand_in {
            return Err(Error::new_spanned(stand_in, "what may be left out has a `default`"));
        }
        let written = default.as_ref().and_then(as_written);
        let value = match (with, default.or(stand_in), inner(&field.ty)) {
            (Some(with), None, _) => Reading::By(with),
            (Some(with), Some(_), _) => {
                return Err(Error::new_spanned(with, "it says itself what holds otherwise"));
            }
            (None, Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })), _) => {
                Reading::Parsed(text)
            }
            (None, Some(default), _) => Reading::Or(default),
            (None, None, Some(inner)) => Reading::Maybe(inner),
            (None, None, None) if needed => Reading::Needed,
            (None, None, None) => {
                let text = "say by `default` what holds when it is not given";
                return Err(Error::new_spanned(attribute, text));
            }
        };
        let shown = match (shown, written) {
            (Some(shown), _) => shown,
            (None, Some(written)) => LitStr::new(&written, Span::call_site()),
            (None, None) if needed => LitStr::new("", Span::call_site()),
            (None, None) => {
                let text = "say by `shown` what people are told holds when it is not given";
                return Err(Error::new_spanned(attribute, text));
            }
        };
        let help = help_of(help, field, attribute)?;
        Ok(Argument { name, help, need, late, kind, shown, value })
    }
}

impl Handler {
    fn read(attribute: &Attribute, field: &Field, ident: &Ident) -> Result<Handler> {
        let mut name = LitStr::new(&ident.to_string(), ident.span());
        let (mut kind, mut help, mut flags, mut kept) = (None, None, None, false);
        attribute.parse_nested_meta(|meta| {
            match word(&meta)?.as_str() {
                "value" | "read" | "count" => kind = meta.path.get_ident().cloned(),
                "kept" => kept = true,
                "name" => name = meta.value()?.parse()?,
                "help" => help = Some(meta.value()?.parse()?),
                "flags" => flags = Some(meta.value()?.parse()?),
                _ => {
                    return Err(meta.error(
                        "expected `value`, `read`, `count`, `kept`, `name`, `help` or `flags`",
                    ));
                }
            }
            Ok(())
        })?;
        let text = "say `value` for one that is read and written, `read` or `count`";
        let kind = kind.ok_or_else(|| Error::new_spanned(attribute, text))?;
        if kept && kind != "count" {
            return Err(Error::new_spanned(attribute, "what is kept is a `count`"));
        }
        Ok(Handler { kind, name, help: help_of(help, field, attribute)?, flags, kept })
    }
}

pub(crate) fn named<'a>(
    attributes: &'a [Attribute],
    name: &str,
) -> impl Iterator<Item = &'a Attribute> {
    attributes.iter().filter(move |attribute| attribute.path().is_ident(name))
}

fn word(meta: &ParseNestedMeta<'_>) -> Result<String> {
    let ident = meta.path.get_ident().ok_or_else(|| meta.error("expected a word"))?;
    Ok(ident.to_string())
}

/// The line about it: the field's documentation unless said otherwise.
fn help_of(help: Option<LitStr>, field: &Field, attribute: &Attribute) -> Result<LitStr> {
    if let Some(help) = help {
        return Ok(help);
    }
    let text = documentation(&field.attrs).ok_or_else(|| {
        let text = "a documentation comment says what it does: it is what people read about it";
        Error::new_spanned(attribute, text)
    })?;
    Ok(LitStr::new(&text, Span::call_site()))
}

/// A documentation comment as one line.
pub(crate) fn documentation(attributes: &[Attribute]) -> Option<String> {
    let mut lines = Vec::new();
    for attribute in named(attributes, "doc") {
        if let syn::Meta::NameValue(meta) = &attribute.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &meta.value
        {
            lines.push(line.value().trim().to_owned());
        }
    }
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// Returns the type inside an `Option`.
fn inner(ty: &Type) -> Option<Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(inner.clone()),
        _ => None,
    }
}

/// A default as people would write it, where it is plain.
fn as_written(default: &Expr) -> Option<String> {
    match default {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        Expr::Lit(ExprLit { lit, .. }) => Some(lit.to_token_stream().to_string()),
        Expr::Unary(ExprUnary { op: syn::UnOp::Neg(_), expr, .. }) => {
            Some(format!("-{}", as_written(expr)?))
        }
        _ => None,
    }
}

impl ToTokens for Argument {
    /// Its declaration, but for the kind that its type has.
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Argument { name, help, shown, .. } = self;
        let kind = self.kind.as_ref().map_or_else(|| quote!(KIND), ToTokens::to_token_stream);
        let declared = match self.need {
            Need::Required => quote!(::linerate_graph::Arg::required(#name, #kind, #help)),
            Need::Optional => quote!(::linerate_graph::Arg::optional(#name, #kind, #shown, #help)),
            Need::Keyword => quote!(::linerate_graph::Arg::keyword(#name, #kind, #shown, #help)),
            Need::RequiredKeyword => quote! {
                ::linerate_graph::Arg {
                    need: ::linerate_graph::Need::Keyword { required: true },
                    ..::linerate_graph::Arg::keyword(#name, #kind, #shown, #help)
                }
            },
        };
        tokens.extend(if self.late { quote!(#declared.late()) } else { declared });
    }
}
