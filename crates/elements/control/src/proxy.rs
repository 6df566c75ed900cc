//! `HandlerProxy`: passes calls on to the handlers of other elements.

use linerate_graph::{
    Class, Context, Element, Handler, HandlerError, HandlerRef, HandlerResult, Role,
};

use super::FAMILY;

/// Handler for every name with a dot in it.
const PROXIED: Handler =
    Handler::value("ELEMENT.HANDLER", "that handler of that element").with_parameter();

pub(super) const CLASS: Class = Class {
    name: "HandlerProxy",
    family: FAMILY,
    summary: "shows the handlers of other elements as its own",
    description: "Its handler `element.handler` is that handler of that element, looked for in \
        the proxy's compound and outwards; `.handler` is the global one. So a control socket with \
        `PROXY` shows a compound's elements by their names inside it. Private handlers and other \
        proxies are not passed on.",
    role: Role::Information,
    cost: "Nothing per packet.",
    example: "elementclass Part { p :: HandlerProxy; Idle -> c :: Counter -> Discard } part :: Part; \
        Script(print part/p.c.count, stop);",
    make: |_| Box::new(HandlerProxy),
    ..Class::here()
};

/// Returns true if an element is a proxy.
pub(super) fn is_proxy(cx: &Context, element: usize) -> bool {
    cx.plan().elements[element].class.name == CLASS.name
}

#[derive(Default)]
struct HandlerProxy;

/// The handler a name means, if it may be passed on.
fn target(cx: &Context, name: &str) -> Result<HandlerRef, HandlerError> {
    let found = cx.find_handler(name)?;
    // A proxy of a proxy could go round in circles.
    let proxy = found.element.is_some_and(|element| is_proxy(cx, element));
    let private = cx.handler(&found).is_some_and(|about| about.private);
    if proxy || private { Err(HandlerError::missing(name)) } else { Ok(found) }
}

impl Element for HandlerProxy {
    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        let target = target(cx, handler)?;
        cx.stand_in(self, |cx| cx.read_handler(&target, parameter))
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let target = target(cx, handler)?;
        cx.stand_in(self, |cx| cx.write_handler(&target, value))
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        name.contains('.').then_some(&PROXIED)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn handlers_of_others_are_its_own() {
        let mut run = Run::new(
            "elementclass Part { p, q :: HandlerProxy; s :: Script(TYPE PASSIVE);
                Idle -> c :: Counter -> Discard }
            part :: Part;
            Script(print part/p.c.class, print part/p.driver, print part/p..driver,
                print $(part/p.s.add 1 2), write part/p.c.reset, print $?,
                print part/p.c.nope, print part/p.q.c.count, print part/p.s.cat, stop)",
        )
        .frame_limit(1);
        run.run();
        let text = run.output();
        assert!(text.starts_with("Counter\n"), "{text}");
        assert!(text.contains("userlevel\n3\n0\n"), "{text}");
        assert!(!text.contains("/etc"), "{text}");
    }
}
