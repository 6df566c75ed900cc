//! `ScheduleInfo`: tickets of tasks.

use linerate_graph::{
    Arg, Class, ElementBuilder, ElementStatements, Fixed, TICKETS_DEFAULT, lang::config::words,
};

use super::{INFORMATION, prefix};

pub(super) const CLASS: Class = Class {
    name: "ScheduleInfo",
    summary: "sets how often tasks run",
    description: "Each argument is an element and a number. Tasks run in proportion to their \
        numbers: one with 2 runs four times as often as one with 0.5. The number of a task nobody \
        named is 1.\n\n\
        A number given to a compound multiplies those of the elements in it. What is said outside \
        a compound about an element inside replaces what is said inside.",
    args: &[Arg::rest("ELEMENT NUMBER", "element and number", "an element and its number")],
    example: "a :: InfiniteSource(LIMIT 10, STOP true) -> Discard;\n\
        b :: InfiniteSource -> Discard;\n\
        ScheduleInfo(a 2, b 0.5);",
    prepare: Some(say),
    file: file!(),
    ..INFORMATION
};

/// Bits behind the point of a number of tickets: a task with 1 has 1024.
const BITS: u32 = TICKETS_DEFAULT.ilog2();

fn say(make: &mut ElementBuilder<'_>, said: &mut ElementStatements) {
    for argument in make.rest() {
        let parts = words(&argument);
        let number = parts.get(1).map(|number| make.parse::<Fixed<BITS>>(number));
        match (&parts[..], number) {
            ([], _) => {}
            ([name, _], Some(Ok(Fixed(tickets)))) => {
                said.schedule.say(prefix(make), name, tickets);
            }
            _ => make.error("expected 'ELEMENTNAME PARAM'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn wrong_schedules_are_refused() {
        assert_eq!(
            Run::errors("s :: ScheduleInfo(a, b 1, , c x, d 1 2);"),
            "config:1: While configuring 's :: ScheduleInfo':\n  \
             expected 'ELEMENTNAME PARAM'\n  \
             expected 'ELEMENTNAME PARAM'\n  \
             expected 'ELEMENTNAME PARAM'\n"
        );
    }

    /// Packets two sources have made when the first has made 1200.
    fn ratio(schedule: &str) -> String {
        let mut run = Run::new(&format!(
            "elementclass Source {{ i :: InfiniteSource(BURST 1) -> output }}\n\
             a :: InfiniteSource(LIMIT 1200, BURST 1, STOP true) -> Discard;\n\
             b :: Source -> d :: Discard; {schedule}"
        ))
        .frame_limit(1);
        run.run();
        run.read("b/i.count")
    }

    #[test]
    fn tasks_run_in_proportion_to_their_numbers() {
        for (schedule, expected) in [
            ("", 1200),
            ("ScheduleInfo(a 2)", 600),
            ("ScheduleInfo(a 0.5, b/i 2)", 4800),
            ("ScheduleInfo(b 4)", 4800),
        ] {
            let made: i64 = ratio(schedule).parse().unwrap();
            assert!((made - expected).abs() <= 4, "{schedule}: {made}");
        }
    }
}
