//! `PokeHandlers`: the forerunner of `Script`, for configurations that still
//! use it. Its directives are a script's instructions, but for waiting.

use linerate_graph::{Arg, Class, Role, lang::config::shift_word, parse_time};

use super::{FAMILY, script::Script};

pub(super) const CLASS: Class = Class {
    name: "PokeHandlers",
    family: FAMILY,
    summary: "calls handlers at given times",
    description: "Each argument is a directive: `read HANDLER` (shown on standard error), `write \
        HANDLER [VALUE]`, a time to wait, `loop` (from the first directive on), `stop` (asks for \
        the end of the run) or `quit` (ends the directives). `Script` does more.",
    args: &[Arg::rest("DIRECTIVE", "directive", "what to do")],
    role: Role::Information,
    cost: "Nothing per packet.",
    example: "Idle -> c :: Counter -> Discard; PokeHandlers(read c.count, 0.1, write c.reset, stop);",
    make: |make| {
        let mut program = Vec::new();
        for directive in make.rest() {
            program.push(match shift_word(&directive).0 {
                "read" | "write" | "loop" | "stop" => directive,
                "quit" => "end".into(),
                _ if parse_time(&directive).is_some() => format!("wait {directive}"),
                "" => continue,
                word => {
                    make.error(format!("unknown directive '{word}'"));
                    continue;
                }
            });
        }
        Box::new(Script::active(make, &program))
    },
    ..Class::here()
};

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn directives_are_carried_out_in_time() {
        let mut run = Run::new(
            "Idle -> c :: Counter -> Discard;
            PokeHandlers(read d.count, 1, write d.reset_counts, read d.class, 0.5, stop);
            Idle -> d :: Discard",
        )
        .frame_limit(1);
        run.run();
        assert_eq!(run.output(), "d.count:\n0\nd.class:\nDiscard\n");
        assert!(Run::errors("PokeHandlers(foo x)").contains("unknown directive 'foo'"));
    }
}
