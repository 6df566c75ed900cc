//! `IPRewriterPatterns`: patterns by name.

use linerate_graph::{Arg, Class, Inert, Make, Role, Scope};

use super::{FAMILY, registry::Registry};

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

fn check(make: &mut Make<'_>) {
    let registry = make.world.common::<Registry>();
    let arguments = make.rest();
    let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
    let known = |name: &str| registry.is_defined_before(name, &scope);
    let (_, errors) = Registry::define(&arguments, &scope, known);
    errors.into_iter().for_each(|error| make.error(error));
}
