//! `Classifier`: an output for each pattern of bytes.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::Frame;

use super::{
    FAMILY,
    matcher::{Matcher, NEVER},
    pattern,
    program::{Program, To},
};

pub(super) const CLASS: Class = Class {
    name: "Classifier",
    family: FAMILY,
    summary: "sends packets to the output of the first pattern their bytes match",
    description: "There is an output for each pattern. A pattern is a list of clauses \
        `OFFSET/VALUE` or `OFFSET/VALUE%MASK`, separated by spaces, that must all hold: the \
        packet has the bytes VALUE at OFFSET, where MASK has ones. OFFSET is decimal, VALUE and \
        MASK are an even number of hexadecimal digits; the digit `?` stands for any. With `!` in \
        front a clause must not hold. The pattern `-` matches every packet.\n\n\
        A packet that ends before the last byte a clause looks at does not hold it. Packets that \
        match no pattern are dropped.",
    ports: "1/-",
    processing: "h/h",
    args: &[Arg::rest("PATTERN", "pattern", "what packets for the output have; one per output")],
    handlers: &[Handler::read("program", "the steps by which packets are classified")],
    drops: &["no pattern matches"],
    cost: "Every word looked at is read once per packet; the steps of a program of up to 24 are \
        decided for sixteen packets at a time without branches, so that a mix of packets costs \
        no more than packets of one kind. A frame whose packets all go one way is handed on \
        whole.",
    example: "InfiniteSource(LIMIT 10, STOP true)\n  \
        -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
        c [0] -> Discard; c [1] -> Discard; c [2] -> Discard; c [3] -> Discard;",
    make: |make| Box::new(Classifier::new(make)),
    ..Class::EMPTY
};

const UNMATCHED: usize = 0;

struct Classifier {
    matcher: Matcher,
    /// Whether there are packets no pattern matches.
    partial: bool,
}

impl Classifier {
    fn new(make: &mut Make<'_>) -> Classifier {
        let texts = make.rest();
        let outputs = make.outputs();
        let mut patterns = Vec::new();
        let mut errors = Vec::new();
        if texts.len() == outputs {
            let parse = |(at, text): (usize, &String)| pattern::parse(at, text, &mut errors);
            patterns = texts.iter().enumerate().map(parse).collect();
        } else {
            errors.push(format!("need {outputs} arguments, one per output port"));
        }
        let program = Program::new(&patterns);
        if errors.is_empty() {
            for output in (0..outputs).filter(|output| !program.reaches(To::Output(*output))) {
                make.warn(format!("warning: output {output} matches no packets"));
            }
        }
        errors.into_iter().for_each(|error| make.error(error));
        Classifier {
            partial: program.reaches(To::Never),
            matcher: Matcher::new(program, make.world.frame_limit),
        }
    }
}

impl Element for Classifier {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let answers = self.matcher.run(cx.pool.arena(), frame);
        if self.partial && answers.contains(&NEVER) {
            let mut places = answers.iter();
            let Context { pool, out, .. } = cx;
            let mut unmatched = 0;
            frame.drain_front(frame.len(), |slot| match places.next() {
                Some(&output) if output != NEVER => out.emit(output as usize, slot),
                _ => {
                    unmatched += 1;
                    pool.give_one(slot);
                }
            });
            cx.count_drops(UNMATCHED, unmatched);
        } else {
            cx.out.distribute(frame, answers);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "program" => Ok(self.matcher.program().to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}
