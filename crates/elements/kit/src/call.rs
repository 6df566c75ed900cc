//! Handlers that elements write when something has happened to them.

use linerate_graph::{Context, Element, HandlerCall, HandlerError, unquoted};

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

/// The same for an element that is in its place meanwhile
/// ([`Context::stand_in`]).
pub fn perform_standing_in(
    call: &HandlerCall,
    cx: &mut Context,
    expand: impl FnOnce(&str) -> String,
) {
    let value = expand(&unquoted(&call.value));
    let written = cx.write_handler(&call.handler, &value);
    report(cx, written);
}

fn report(cx: &Context, written: Result<String, HandlerError>) {
    if let Err(error) = written {
        let text = format!("{}: {error}\n", cx.name());
        cx.console().report(&text);
    }
}
