//! `Message`: prints a message when a configuration is read.

use linerate_graph::{Arg, Class, ElementBuilder, Inert, Role};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "Message",
    family: FAMILY,
    summary: "prints a message when the configuration is read",
    description: "With `TYPE ERROR` the configuration is refused.",
    ports: "0/0",
    args: &[
        Arg::required("MESSAGE", "string", "the message"),
        Arg::optional("TYPE", "MESSAGE, WARNING or ERROR", "MESSAGE", "how bad it is"),
    ],
    role: Role::Information,
    cost: "None: no packet passes.",
    example: "Message(\"ten packets\"); InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| {
        say(make);
        Box::new(Inert)
    },
    ..Class::here()
};

fn say(make: &mut ElementBuilder<'_>) {
    let message: String = make.need("MESSAGE");
    let kind = make.or("TYPE", String::from("MESSAGE"));
    match kind.as_str() {
        "MESSAGE" => make.tell(message),
        "WARNING" => make.warn(message),
        "ERROR" => make.error(message),
        _ => make.error("unrecognized message type"),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// As Click 2.1 prints, which however refuses a warning as it does an
    /// error.
    #[test]
    fn messages_are_shown() {
        let mut run = Run::new(
            "Message(hello); m :: Message(\"a b\", WARNING);
             InfiniteSource(LIMIT 1, STOP true) -> c :: Counter -> Discard",
        );
        run.run();
        assert_eq!(run.read("c.count"), "1");
        assert_eq!(
            run.output(),
            "config:1: While configuring 'Message@1 :: Message':\n  hello\n\
             config:1: While configuring 'm :: Message':\n  warning: a b\n"
        );
    }

    #[test]
    fn errors_refuse_the_configuration() {
        for (config, error) in [
            ("hello, ERROR", "hello"),
            ("hello, FOO", "unrecognized message type"),
            ("", "MESSAGE: required argument missing"),
        ] {
            assert_eq!(
                Run::errors(&format!("Message({config}); Idle -> Discard")),
                format!("config:1: While configuring 'Message@1 :: Message':\n  {error}\n")
            );
        }
    }
}
