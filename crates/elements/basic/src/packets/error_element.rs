//! `ErrorElement`: fails every configuration.

use linerate_graph::{Arg, Class, Context, Element};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "ErrorElement",
    family: FAMILY,
    summary: "takes any arguments and ports, and refuses to be initialized",
    description: "A placeholder in configurations that are checked and not run.",
    ports: "-/-",
    processing: "a/a",
    args: &[Arg::rest("ANYTHING", "anything", "ignored")],
    cost: "None: no packet passes.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Discard; // instead of -> ErrorElement(what)",
    make: |_| Box::new(ErrorElement),
    ..Class::here()
};

struct ErrorElement;

impl Element for ErrorElement {
    fn initialize(&mut self, _: &mut Context) -> Result<(), String> {
        Err("an ErrorElement cannot be run; replace it by what is meant".into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn it_is_never_run() {
        assert_eq!(
            Run::errors("Idle -> ErrorElement(a, B c) -> Discard"),
            "config:1: While initializing 'ErrorElement@2 :: ErrorElement':\n  \
             an ErrorElement cannot be run; replace it by what is meant\n"
        );
    }
}
