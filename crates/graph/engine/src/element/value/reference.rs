//! References to elements and to handlers, as they are meant inside the
//! compound of the element whose argument it is.

use super::{PARSE_ERROR, Value, text::as_string};
use crate::{
    element::{Plan, Scope},
    error::HandlerError,
    lang::config::{shift_word, string},
};

/// A reference to another element of the graph, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementRef(pub usize);

impl Value for ElementRef {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<ElementRef, String> {
        let found = scope.plan.resolve(text, scope.name);
        found.map(ElementRef).ok_or_else(|| "does not name an element".into())
    }

    fn unparse(&self, scope: &Scope<'_>) -> String {
        name_from(scope, self.0).into()
    }
}

/// The name by which an element is found from that of the scope: the whole, unless it leads to
/// another one further inside.
fn name_from<'p>(scope: &Scope<'p>, element: usize) -> &'p str {
    let name = scope.plan.elements[element].name.as_str();
    let slashes = name.match_indices('/').map(|(slash, _)| &name[slash + 1..]);
    let mut names = std::iter::once(name).chain(slashes);
    names.find(|name| scope.plan.resolve(name, scope.name) == Some(element)).unwrap_or(name)
}

/// A reference to a handler: of an element, or a global one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerRef {
    /// The element's place in the plan.
    pub element: Option<usize>,
    /// The handler's name.
    pub handler: String,
}

impl HandlerRef {
    /// The handler `element.handler` or, global, `handler` names in a graph;
    /// elements may be called by their numbers, from 1.
    ///
    /// # Errors
    ///
    /// When there is no such element.
    pub fn find(plan: &Plan, name: &str) -> Result<HandlerRef, HandlerError> {
        let of = |element, handler: &str| Ok(HandlerRef { element, handler: handler.into() });
        match name.rsplit_once('.') {
            None => of(None, name),
            Some(("", handler)) => of(None, handler),
            Some((element, handler)) => {
                let numbered = || {
                    let number: usize = element.parse().ok()?;
                    (1..=plan.elements.len()).contains(&number).then(|| number - 1)
                };
                let found = plan.find(element).or_else(numbered);
                of(Some(found.ok_or_else(|| HandlerError::NoElement(element.into()))?), handler)
            }
        }
    }
}

impl Value for HandlerRef {
    /// `element.handler`; `.handler` for a global one; `handler` for the
    /// element's own, or else a global one.
    fn parse(text: &str, scope: &Scope<'_>) -> Result<HandlerRef, String> {
        let text = string(text).filter(|text| !text.is_empty()).ok_or("syntax error")?;
        let text = String::from_utf8_lossy(&text);
        let of = |element, handler: &str| Ok(HandlerRef { element, handler: handler.into() });
        let dot = text.split_once('.');
        match dot {
            Some(("", handler)) => return of(None, handler),
            Some((_, "")) => return Err("syntax error".into()),
            Some((element, handler)) => {
                if let Some(found) = scope.plan.resolve(element, scope.name) {
                    return of(Some(found), handler);
                }
            }
            None => {}
        }
        let own = scope.plan.find(scope.name);
        let has = |at: &usize| scope.plan.elements[*at].class.handler(&text).is_some();
        match (own.filter(has), dot) {
            (Some(own), _) => of(Some(own), &text),
            (None, None) => of(None, &text),
            (None, Some((element, _))) => Err(format!("no element named '{element}'")),
        }
    }

    fn unparse(&self, scope: &Scope<'_>) -> String {
        let element = self.element.map_or("", |element| name_from(scope, element));
        as_string(format!("{element}.{}", self.handler).as_bytes())
    }
}

/// A handler and the value it is to be given: `element.handler VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerCall {
    /// The handler.
    pub handler: HandlerRef,
    /// The value written to it, or the parameter of reading it, as written.
    pub value: String,
}

impl Value for HandlerCall {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<HandlerCall, String> {
        let (handler, value) = shift_word(text);
        if handler.is_empty() {
            return Err(PARSE_ERROR.into());
        }
        let handler = HandlerRef::parse(handler, scope);
        let handler = handler.map_err(|error| format!("{error}\n{PARSE_ERROR}"))?;
        Ok(HandlerCall { handler, value: value.into() })
    }

    fn unparse(&self, scope: &Scope<'_>) -> String {
        let handler = self.handler.unparse(scope);
        if self.value.is_empty() { handler } else { format!("{handler} {}", self.value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{element::plan::tests::plan, names::Names};

    fn read<T: Value>(text: &str, from: &str) -> Result<T, String> {
        let plan = plan("a :: Idle; c :: { b :: Idle; d :: { e :: Idle } }");
        T::parse(text, &Scope { plan: &plan, names: &Names::default(), name: from })
    }

    #[test]
    fn elements_are_looked_for_inside_out() {
        for (text, from, expected) in [
            ("a", "a", Some("a")),
            ("b", "c/b", Some("c/b")),
            ("b", "c/d/e", Some("c/b")),
            ("a", "c/d/e", Some("a")),
            ("d/e", "c/b", Some("c/d/e")),
            ("c/b", "c/d/e", Some("c/b")),
            ("b", "a", None),
        ] {
            let plan = plan("a :: Idle; c :: { b :: Idle; d :: { e :: Idle } }");
            let expected = expected.map(|name| ElementRef(plan.find(name).unwrap()));
            let expected = expected.ok_or_else(|| "does not name an element".to_owned());
            assert_eq!(read(text, from), expected, "{text} from {from}");
        }
    }

    #[test]
    fn handlers_of_a_graph() {
        let plan = plan("a :: Idle; b :: Idle");
        let find = |name| HandlerRef::find(&plan, name).map(|found| (found.element, found.handler));
        assert_eq!(find("b.x"), Ok((Some(1), "x".into())));
        assert_eq!(find("1.x"), Ok((Some(0), "x".into())));
        assert_eq!(find("x"), Ok((None, "x".into())));
        for name in ["0.x", "3.x", "c.x"] {
            let element = name[..1].to_owned();
            assert_eq!(find(name), Err(HandlerError::NoElement(element)));
        }
    }

    #[test]
    fn handlers() {
        let of = |element, handler: &str| Ok(HandlerRef { element, handler: handler.into() });
        let a = plan("a :: Idle").find("a");
        assert_eq!(read("a.config", "c/b"), of(a, "config"));
        assert_eq!(read("'a.config'", "a"), of(a, "config"));
        assert_eq!(read(".config", "a"), of(None, "config"));
        assert_eq!(read("config", "a"), of(a, "config"));
        assert_eq!(read("list", "a"), of(None, "list"));
        assert_eq!(read::<HandlerRef>("a.", "a"), Err("syntax error".into()));
        assert_eq!(read::<HandlerRef>("", "a"), Err("syntax error".into()));
        assert_eq!(read::<HandlerRef>("x.count", "a"), Err("no element named 'x'".into()));
        let call: HandlerCall = read("a.config  1, 2", "a").unwrap();
        assert_eq!((Ok(call.handler), call.value.as_str()), (of(a, "config"), "1, 2"));
    }
}
