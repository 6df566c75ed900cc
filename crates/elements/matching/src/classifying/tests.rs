//! Patterns as programs, shown and run.

use linerate_memory::{ArenaOptions, Frame, HeaderCache};

use super::pattern::{Clause, Pattern, parse};
use crate::decision::{Formula, Headers, Matcher, Program, To};

fn rules(patterns: &[Pattern]) -> Vec<(Formula, To)> {
    let rule = |(output, pattern): (usize, &Pattern)| (pattern.formula(), To::Output(output));
    patterns.iter().enumerate().map(rule).collect()
}

fn program(patterns: &str) -> Program {
    let mut errors = Vec::new();
    let patterns = patterns.split(',').map(str::trim).enumerate();
    let patterns: Vec<Pattern> = patterns.map(|(at, text)| parse(at, text, &mut errors)).collect();
    assert_eq!(errors, Vec::<String>::new());
    Program::first_of(&rules(&patterns))
}

/// Texts are those of Click 2.1.
#[test]
fn programs_are_shown_as_click_shows_them() {
    let cases = [
        (
            "12/0806 20/0001, 12/0806 20/0002, 12/0800, -",
            " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n \
             1  20/00010000%ffff0000  yes->[0]  no->step 2\n \
             2  20/00020000%ffff0000  yes->[1]  no->[3]\n \
             3  12/08000000%ffff0000  yes->[2]  no->[3]\n\
             safe length 22\nalignment offset 0",
        ),
        ("-", "all->[0]\nsafe length 0\nalignment offset 0"),
        ("12/????", "all->[0]\nsafe length 0\nalignment offset 0"),
        (
            "!12/0800",
            " 0  12/08000000%ffff0000  yes->[X]  no->[0]\n\
             safe length 14\nalignment offset 0",
        ),
        (
            "12/0800 ! 23/06, 12/0800 14/4? , 9/11 33/0011",
            " 0  12/08000000%ffff0000  yes->step 1  no->step 2\n \
             1  20/00000006%000000ff  yes->step 2  no->[0]\n \
             2  12/08004000%fffff000  yes->[1]  no->step 3\n \
             3   8/00110000%00ff0000  yes->step 4  no->[X]\n \
             4  32/00001100%00ffff00  yes->[2]  no->[X]\n\
             safe length 35\nalignment offset 0",
        ),
        (
            "12/8100 16/0800, 12/0800, 12/0800",
            " 0  12/81000000%ffff0000  yes->step 1  no->step 2\n \
             1  16/08000000%ffff0000  yes->[0]  no->[X]\n \
             2  12/08000000%ffff0000  yes->[1]  no->[X]\n\
             safe length 18\nalignment offset 0",
        ),
        ("12/0800 12/0806", "all->[2147483647]\nsafe length 0\nalignment offset 0"),
    ];
    for (patterns, expected) in cases {
        assert_eq!(program(patterns).to_string(), expected, "{patterns}");
    }
}

/// Matches a pattern byte by byte, as the reference.
fn matches(pattern: &Pattern, bytes: &[u8]) -> bool {
    let holds = |clause: &Clause| {
        let mut bytes_of = clause.tests.iter().flat_map(|test| {
            let (mask, value) = (test.mask.to_be_bytes(), test.value.to_be_bytes());
            (0..4).map(move |at| (test.offset + at, mask[at], value[at]))
        });
        bytes_of.all(|(at, mask, value)| {
            mask == 0 || bytes.get(at).is_some_and(|byte| byte & mask == value)
        }) != clause.negated
    };
    pattern.clauses.iter().all(holds)
}

fn random_patterns(random: &mut fastrand::Rng) -> Vec<Pattern> {
    let count = random.usize(1..8);
    let mut errors = Vec::new();
    let patterns = (0..count).map(|at| {
        let mut text = String::new();
        for _ in 0..random.usize(0..5) {
            let negated = if random.u8(..4) == 0 { "!" } else { "" };
            let offset = random.usize(..20);
            text += &format!(" {negated}{offset}/");
            for _ in 0..random.usize(1..7) {
                text += ["00", "01", "02", "03", "?1", "??"][random.usize(..6)];
            }
        }
        parse(at, &text, &mut errors)
    });
    let patterns = patterns.collect();
    assert_eq!(errors, Vec::<String>::new());
    patterns
}

#[test]
fn any_program_decides_as_its_patterns() {
    let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
    let arena = arena.create().unwrap();
    let mut pool = arena.cache(256);
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let patterns = random_patterns(&mut random);
        let rules = rules(&patterns);
        let mut matcher = Matcher::new(Program::first_of(&rules), &rules, Headers::Packet, 64);
        // A first word that does not decide is not tested alone for the next 15 frames.
        for _ in 0..if seed % 8 == 0 { 18 } else { 2 } {
            let (mut frame, mut header_cache) = (Frame::new(64), HeaderCache::new(64));
            let count = random.usize(1..65);
            assert_eq!(pool.take(&mut frame, count, 26), count);
            let values = random.u8(1..5);
            arena.for_each_mut(&mut frame, |bytes| bytes.fill_with(|| random.u8(..values)));
            if random.bool() {
                let slots = frame.slots_mut().iter_mut();
                slots.for_each(|slot| slot.truncate(random.usize(..30)));
            }
            let answers = matcher.run(&arena, &mut frame, &mut header_cache).to_vec();
            for (answer, bytes) in answers.iter().zip(arena.packets(&frame)) {
                let expected = patterns.iter().position(|pattern| matches(pattern, bytes));
                let expected = expected.map_or(u32::MAX, |output| output as u32);
                assert_eq!(*answer, expected, "seed {seed}: {bytes:02x?} {}", matcher.program());
            }
            pool.give(&mut frame);
        }
    }
}
