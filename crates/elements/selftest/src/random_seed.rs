//! `RandomSeed`: random numbers that are the same in every run.

use linerate_graph::{Arg, Class, ElementBuilder, ElementStatements, Inert, Right, Role};

use linerate_element_support::random::Seed;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "RandomSeed",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "makes random choices the same in every run",
    description: "Elements that choose at random draw from generators of their own, which begin \
        with `SEED` and the element's place in the graph. Without `SEED` they differ from run to \
        run, as they do without a `RandomSeed`; in simulated time they are the same anyhow. The \
        numbers are not those that Click draws for the same seed.",
    ports: "0/0",
    role: Role::Information,
    args: &[Arg::optional("SEED", "number", "a random one", "what generators begin with")],
    cost: "Nothing while packets are handled.",
    example: "RandomSeed(17);\n\
        InfiniteSource(LIMIT 10, STOP true) -> s :: RandomSwitch;\n\
        s [0] -> Discard; s [1] -> Discard;",
    prepare: Some(prepare),
    make: |_| Box::new(Inert),
    ..Class::here()
};

fn prepare(make: &mut ElementBuilder<'_>, _: &mut ElementStatements) {
    if let Some(seed) = make.get::<u32>("SEED") {
        make.world.common::<Seed>().set(seed);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// How many of 1,000 packets go each way.
    fn split(seed: &str) -> [String; 2] {
        let mut run = Run::new(&format!(
            "{seed} InfiniteSource(LIMIT 1000, STOP true) -> s :: RandomSwitch;
            s [0] -> a :: Counter -> Discard; s [1] -> b :: Counter -> Discard;"
        ))
        .real_time();
        run.run();
        ["a.count", "b.count"].map(|handler| run.read(handler))
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        assert_eq!(split("RandomSeed(5);"), split("RandomSeed(5);"));
        let other: Vec<_> = (6..10).map(|seed| split(&format!("RandomSeed({seed});"))).collect();
        assert!(other.iter().any(|split| *split != other[0]), "{other:?}");
    }
}
