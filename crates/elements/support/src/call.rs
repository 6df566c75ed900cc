//! Calls of handlers that elements make on events of their own.

use linerate_graph::{Context, Element, ElementBuilder, HandlerCall, HandlerResult, unquoted};

/// Action of an element at an end that its configuration has set.
#[derive(Debug, Clone, Default)]
pub enum End {
    /// Nothing else.
    #[default]
    Nothing,
    /// It asks for the end of the run.
    Stop,
    /// It writes a handler.
    Call(HandlerCall),
}

impl End {
    /// From the arguments `STOP` and `END_CALL`.
    pub fn from_args(make: &mut ElementBuilder<'_>) -> End {
        let (stop, call) = (make.or("STOP", false), make.get("END_CALL"));
        if stop && call.is_some() {
            make.error("END_CALL and STOP are mutually exclusive");
        }
        match call {
            Some(call) => End::Call(call),
            None if stop => End::Stop,
            None => End::Nothing,
        }
    }

    /// Returns true if something is done.
    pub fn is_set(&self) -> bool {
        !matches!(self, End::Nothing)
    }
}

/// Writes a handler for `element`, which is at work and whose own handlers are
/// therefore written directly. `expand` may change the value.
pub fn perform(
    call: &HandlerCall,
    element: &mut dyn Element,
    cx: &mut Context,
    expand: impl FnOnce(&str) -> String,
) {
    if call.handler.element == Some(cx.element()) {
        let value = expand(&unquoted(&call.value));
        let written = element.write(cx, &call.handler.handler, &value);
        report(cx, written);
    } else {
        perform_standing_in(call, cx, expand);
    }
}

/// As [`perform`], for an element that is in its place meanwhile ([`Context::stand_in`]).
pub fn perform_standing_in(
    call: &HandlerCall,
    cx: &mut Context,
    expand: impl FnOnce(&str) -> String,
) {
    let value = expand(&unquoted(&call.value));
    let written = cx.write_handler(&call.handler, &value);
    report(cx, written);
}

fn report(cx: &Context, written: HandlerResult) {
    if let Err(error) = written {
        let text = format!("{}: {error}\n", cx.name());
        cx.console().report(&text);
    }
}
