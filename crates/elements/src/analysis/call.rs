//! Handlers that elements write when something has happened to them.

use linerate_graph::{
    Context, Element, HandlerRef, Make, Text, lang::config::shift_word, unquoted,
};

/// A handler and the value to write to it.
#[derive(Debug, Clone)]
pub(crate) struct HandlerCall {
    handler: HandlerRef,
    value: String,
}

impl HandlerCall {
    /// From an argument `HANDLER [VALUE]`.
    pub(crate) fn from_arg(make: &mut Make<'_>, name: &str) -> Option<HandlerCall> {
        let Text(text) = make.get(name)?;
        let (handler, value) = shift_word(&text);
        match make.parse(handler) {
            Ok(handler) => Some(HandlerCall { handler, value: unquoted(value) }),
            Err(error) => {
                make.error(format!("{name}: {error}"));
                None
            }
        }
    }

    /// Writes the handler for `element`, which is at work and whose own
    /// handlers are therefore written directly. `expand` may change the value.
    pub(crate) fn perform(
        &self,
        element: &mut dyn Element,
        cx: &mut Context,
        expand: impl FnOnce(&str) -> String,
    ) {
        let value = expand(&self.value);
        let result = if self.handler.element == Some(cx.element()) {
            element.write(cx, &self.handler.handler, &value)
        } else {
            cx.write_handler(&self.handler, &value)
        };
        if let Err(error) = result {
            let text = format!("{}: {error}\n", cx.name());
            cx.console().report(&text);
        }
    }
}
