//! `HandlerAggregate`: adds up a handler of several elements.
//!
//! The element is `FastClick`'s; Click has none of that kind.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, ElementRef, Handler, HandlerError, HandlerRef,
    HandlerResult, Role, lang::config::shift_word,
};

use super::{FAMILY, script::numbers};

pub(super) const CLASS: Class = Class {
    name: "HandlerAggregate",
    family: FAMILY,
    summary: "adds up the same handler of several elements",
    description: "`HandlerAggregate(ELEMENT a, ELEMENT b, ...)`; its handlers take the name of a \
        handler, with parameters if it has some, read it of each element and answer with one \
        figure: `add count` is the sum of `a.count` and `b.count`.",
    args: &[Arg::rest("ELEMENT", "element", "an element, with or without the word `ELEMENT`")],
    handlers: &[
        Handler::read("add", "the sum").with_parameter(),
        Handler::read("sub", "the first less the others").with_parameter(),
        Handler::read("min", "the least").with_parameter(),
        Handler::read("max", "the greatest").with_parameter(),
        Handler::read("mul", "the product").with_parameter(),
        Handler::read("div", "the first divided by the others").with_parameter(),
        Handler::read("idiv", "the same, cut to an integer").with_parameter(),
        Handler::read("avg", "the mean").with_parameter(),
    ],
    role: Role::Information,
    cost: "Nothing per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> a :: Counter -> b :: Counter -> Discard; \
        all :: HandlerAggregate(ELEMENT a, ELEMENT b); DriverManager(pause, print $(all.add count));",
    make: |make| Box::new(HandlerAggregate::new(make)),
    ..Class::here()
};

#[derive(Default)]
struct HandlerAggregate {
    elements: Vec<usize>,
}

impl HandlerAggregate {
    fn new(make: &mut ElementBuilder<'_>) -> HandlerAggregate {
        let mut elements = Vec::new();
        for argument in make.rest() {
            let name = match shift_word(&argument) {
                ("ELEMENT", name) => name,
                _ => argument.as_str(),
            };
            match make.parse::<ElementRef>(name) {
                Ok(ElementRef(element)) => elements.push(element),
                Err(error) => make.error(format!("ELEMENT: {error}")),
            }
        }
        HandlerAggregate { elements }
    }
}

impl Element for HandlerAggregate {
    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        let (name, parameter) = shift_word(parameter);
        let mut answers = Vec::new();
        for element in self.elements.clone() {
            if element == cx.element() {
                return Err(HandlerError::refused("an aggregate is not part of itself"));
            }
            let handler = HandlerRef { element: Some(element), handler: name.into() };
            let full = cx.handler_name(&handler);
            let answer = cx.read_handler(&handler, parameter);
            let answer = answer.map_err(|error| HandlerError::refused(error.of_call(&full, false)));
            answers.push(answer?.trim().to_owned());
        }
        let count = answers.len();
        let sum = if handler == "avg" { "add" } else { handler };
        let compute = |name: &str, words: &str| {
            let answer = numbers::compute(name, words);
            answer.unwrap_or_else(|| Err("not a figure".into())).map_err(HandlerError::Refused)
        };
        let answer = compute(sum, &answers.join(" "))?;
        if handler == "avg" { compute("div", &format!("{answer} {count}")) } else { Ok(answer) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn figures_of_several_elements_become_one() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 10, STOP true) -> a :: Counter -> b :: Counter -> Discard;
            Idle -> c :: Counter -> Discard; all :: HandlerAggregate(ELEMENT a, b, ELEMENT c);
            DriverManager(pause, print $(all.add count), print $(all.avg count),
                print $(all.max count), print $(all.add nope), print $(all.add class))",
        )
        .frame_limit(1);
        run.run();
        let text = run.output();
        assert!(text.starts_with("20\n6.66666666667\n10\n"), "{text}");
        assert!(text.contains("no 'a.nope' read handler"), "{text}");
        assert!(text.contains("expected list of numbers"), "{text}");
    }
}
