//! Handlers that elements write when something has happened to them.

use linerate_graph::{Context, Element, HandlerCall, unquoted};

/// Writes a handler for `element`, which is at work and whose own handlers are
/// therefore written directly. `expand` may change the value.
pub(crate) fn perform(
    call: &HandlerCall,
    element: &mut dyn Element,
    cx: &mut Context,
    expand: impl FnOnce(&str) -> String,
) {
    let value = expand(&unquoted(&call.value));
    let result = if call.handler.element == Some(cx.element()) {
        element.write(cx, &call.handler.handler, &value)
    } else {
        cx.write_handler(&call.handler, &value)
    };
    if let Err(error) = result {
        let text = format!("{}: {error}\n", cx.name());
        cx.console().report(&text);
    }
}
