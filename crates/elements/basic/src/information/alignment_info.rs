//! `AlignmentInfo`: alignment of packets where they reach elements.

use std::collections::HashMap;

use linerate_graph::{Arg, Class, ElementBuilder, ElementStatements, lang::config::words};

use super::{INFORMATION, resolve};

pub(super) const CLASS: Class = Class {
    name: "AlignmentInfo",
    summary: "says how packets are aligned; accepted and checked, not needed",
    description: "Each argument is an element and, for each of its inputs, a chunk size and an \
        offset: packets arrive there at an address that leaves `OFFSET` when divided by `CHUNK`. \
        Click's tools write such elements. Here packets may be aligned in any way, so what is said \
        is checked and not used.",
    args: &[Arg::rest(
        "ELEMENT CHUNK OFFSET...",
        "element and numbers",
        "an element and the alignment at its inputs",
    )],
    example: "InfiniteSource(LIMIT 10, STOP true) -> d :: Discard;\nAlignmentInfo(d 4 2);",
    prepare: Some(check),
    file: file!(),
    ..INFORMATION
};

fn check(make: &mut ElementBuilder<'_>, _: &mut ElementStatements) {
    let mut said: HashMap<usize, Vec<Option<i32>>> = HashMap::new();
    for (index, argument) in make.rest().into_iter().enumerate() {
        let parts = words(&argument);
        let Some((name, numbers)) = parts.split_first() else {
            make.warn(format!("empty configuration argument {index}"));
            continue;
        };
        let Some(element) = resolve(make, name) else { continue };
        if numbers.len() % 2 != 0 {
            make.error("expected 'ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]'");
        }
        let mut alignment = Vec::new();
        for pair in numbers.chunks_exact(2) {
            for (number, kind) in pair.iter().zip(["CHUNK", "OFFSET"]) {
                let number = make.parse::<i32>(number).ok();
                if number.is_none() {
                    make.error(format!("expected {kind}"));
                }
                alignment.push(number);
            }
        }
        let before = said.insert(element, alignment.clone());
        if before.is_some_and(|before| before != alignment) {
            make.error(format!("conflicting AlignmentInfo for '{name}'"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn wrong_alignments_are_refused() {
        assert_eq!(Run::errors("AlignmentInfo(i 4 2, j 1); i :: Idle"), "");
        assert_eq!(
            Run::errors("a :: AlignmentInfo(i 1, i 4 x, i y 2,); i :: Idle"),
            "config:1: While configuring 'a :: AlignmentInfo':\n  \
             expected 'ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]'\n  \
             expected OFFSET\n  \
             conflicting AlignmentInfo for 'i'\n  \
             expected CHUNK\n  \
             conflicting AlignmentInfo for 'i'\n"
        );
    }
}
