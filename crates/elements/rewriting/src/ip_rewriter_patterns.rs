//! `IPRewriterPatterns`: patterns by name.

use linerate_graph::{Arg, Class, ElementBuilder, Inert, Role, Scope};

use super::{FAMILY, names::Names};

pub(super) const CLASS: Class = Class {
    name: "IPRewriterPatterns",
    family: FAMILY,
    summary: "gives names to patterns of rewriters",
    description: "Each argument is a name and a pattern, `NAME SADDR SPORT DADDR DPORT`, as \
        rewriters' specifications have them. Inputs of rewriters that name the same pattern take \
        turns in its range when that ends with `#`. A name holds in the compound it is defined in \
        and inside it.",
    args: &[Arg::rest("NAME PATTERN", "name and pattern", "a name and what it stands for")],
    role: Role::Information,
    cost: "None.",
    example: "IPRewriterPatterns(out 1.0.0.1 1024-65535# - -); \
        Idle -> rw :: IPRewriter(pattern out 0 1) -> Discard; rw [1] -> Discard; \
        InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| {
        check(make);
        Box::new(Inert)
    },
    ..Class::here()
};

fn check(make: &mut ElementBuilder<'_>) {
    let names = make.world.common::<Names>();
    let arguments = make.rest();
    let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
    let known = |name: &str| names.is_defined_before(name, &scope);
    let (_, errors) = Names::define(&arguments, &scope, known);
    errors.into_iter().for_each(|error| make.error(error));
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// The flows of two rewriters, which get every second one of twelve.
    fn tables(rewriter: &str, names: &str, frame_limit: usize) -> [String; 2] {
        let flow = |number| format!("10.0.0.{number} 5000 2.0.0.2 80 T\n");
        let flows: String = (1..=12).map(flow).collect();
        let mut run = Run::new(&format!(
            "{names}; FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport ip_proto,
                DATA \"{flows}\") -> s :: RoundRobinSwitch -> a :: {rewriter} -> Discard;
             s [1] -> Null -> b :: {rewriter} -> Discard;"
        ))
        .frame_limit(frame_limit);
        run.run();
        let handler = if rewriter.starts_with("IPRewriter") { "tcp_table" } else { "table" };
        ["a", "b"].map(|name| {
            let table = run.read(&format!("{name}.{handler}"));
            let mut lines: Vec<&str> = table.lines().collect();
            lines.sort_unstable();
            lines.join("\n")
        })
    }

    /// Which of them has the next place of a range is decided by their packets, not by the frames
    /// these come in.
    #[test]
    fn rewriters_take_turns_by_packets() {
        let names = "IPRewriterPatterns(out 1.0.0.1 1024-65535# - -, to 1.0.0.1-1.0.0.99# -)";
        let mapper =
            "m :: RoundRobinIPMapper(1.0.0.1 - - - 0 0, 1.0.0.2 - - - 0 0, 1.0.0.3 - - - 0 0)";
        for (rewriter, names) in [
            ("TCPRewriter(pattern out 0 0)", names),
            ("IPRewriter(pattern out 0 0)", names),
            ("IPAddrRewriter(pattern to 0 0)", names),
            ("IPRewriter(m)", mapper),
        ] {
            let single = tables(rewriter, names, 1);
            assert!(single.iter().all(|table| table.lines().count() >= 6), "{single:?}");
            for frame_limit in [2, 7, 256] {
                assert_eq!(tables(rewriter, names, frame_limit), single, "{rewriter}");
            }
        }
    }
}
