//! Tests of which graphs are accepted, of push and pull per port, and of the errors of the others.
//! Expected texts are those of Click 2.1.

use super::*;

const fn class(name: &'static str, ports: &'static str, processing: &'static str) -> Class {
    Class { name, ports, processing, ..Class::here() }
}

const CLASSES: &[Class] = &[
    class("Idle", "-/-", "a/a"),
    class("Source", "0/1", "a/h"),
    class("Discard", "1/0", "a/a"),
    class("Null", "1/1", "a/a"),
    class("Counter", "1/1", "a/a"),
    class("Queue", "1/1", "h/l"),
    class("Unqueue", "1/1", "l/h"),
    class("Tee", "1/1-", "h/h"),
    class("Check", "1/1-2", "a/ah"),
    Class { flow: "#/#", ..class("Pass", "-/=", "a/a") },
    Class { flow: "x/y", ..class("Apart", "1/1", "a/a") },
];

fn checked(text: &str) -> Loaded {
    // Idle's outputs have nothing to do with its inputs.
    let mut idle = CLASSES[0];
    idle.flow = "x/y";
    let idle: &'static Class = Box::leak(Box::new(idle));
    let library = Library::new(CLASSES[1..].iter().chain([idle]));
    load("config", text, &library, &Globals::default(), &mut |_, _| Err(None))
}

/// The graph of a configuration that is right.
pub(crate) fn plan(text: &str) -> Plan {
    let loaded = checked(text);
    loaded.plan.unwrap_or_else(|| panic!("{}", loaded.found.click()))
}

fn errors(text: &str) -> String {
    let loaded = checked(text);
    assert!(loaded.plan.is_none(), "{text}");
    loaded.found.click()
}

/// The ports of each element: inputs, outputs; `h` push, `l` pull.
fn ports(text: &str) -> String {
    let side = |ports: &[Processing]| -> String {
        ports.iter().map(|port| if *port == Processing::Push { 'h' } else { 'l' }).collect()
    };
    let show = |element: &PlanElement| {
        format!("{} {}/{}", element.name, side(&element.inputs), side(&element.outputs))
    };
    plan(text).elements.iter().map(show).collect::<Vec<_>>().join(", ")
}

#[test]
fn push_and_pull_spread_over_agnostic_ports() {
    for (text, expected) in [
        ("s :: Source -> n :: Null -> d :: Discard", "s /h, n h/h, d h/"),
        ("s :: Source -> q :: Queue -> n :: Null -> d :: Discard", "s /h, q h/l, n l/l, d l/"),
        // Ports without any constraint push.
        ("i :: Idle -> n :: Null -> d :: Discard", "i /h, n h/h, d h/"),
        // Against the direction of packets.
        (
            "i :: Idle -> n :: Null -> m :: Null -> u :: Unqueue -> d :: Discard",
            "i /l, n l/l, m l/l, u l/h, d h/",
        ),
        (
            "i :: Idle -> q :: Queue -> c :: Check -> d :: Discard; c[1] -> e :: Discard",
            "i /h, q h/l, c l/lh, d l/, e h/",
        ),
        (
            "s :: Source -> q :: Queue -> [0] p :: Pass -> d :: Discard; \
             t :: Source -> [1] p [1] -> e :: Discard",
            "s /h, q h/l, p lh/lh, d l/, t /h, e h/",
        ),
        ("s :: Source -> a :: Apart -> u :: Unqueue -> d :: Discard", "s /h, a h/l, u l/h, d h/"),
    ] {
        assert_eq!(ports(text), expected, "{text}");
    }
}

#[test]
fn push_against_pull() {
    for (text, expected) in [
        (
            "Idle->Queue->Queue->Discard",
            "'Queue@2 :: Queue' pull output 0 connected to 'Queue@3 :: Queue' push input 0\n",
        ),
        (
            "Source -> Unqueue -> Discard",
            "'Source@1 :: Source' push output 0 connected to 'Unqueue@2 :: Unqueue' pull input 0\n",
        ),
        // Connections come before the insides of elements.
        (
            "Idle -> Queue -> n::Null -> Queue -> Discard; \
             Source->Null->[0]x::Tee->Unqueue->Discard",
            "'x :: Tee' push output 0 connected to 'Unqueue@9 :: Unqueue' pull input 0\n\
             agnostic 'n :: Null' in mixed context: pull input 0, push output 0\n",
        ),
    ] {
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn ports_that_are_not_there() {
    assert_eq!(
        errors("Idle->[1]Discard; Discard[2]->Discard"),
        "config:1: 'Discard@2 :: Discard' has no input 1\n\
         config:1: 'Discard@3 :: Discard' has no output 2\n"
    );
    assert_eq!(
        errors("Idle->Discard->Discard"),
        "config:1: 'Discard@2 :: Discard' has no output 0\n"
    );
}

#[test]
fn ports_used_twice_or_not_at_all() {
    assert_eq!(
        errors(
            "u::Unqueue; a::Idle,b::Idle,c::Idle->u->Discard; q3::Queue;\n\
             i2::Source; i2->Discard; i2->Discard; i2->Discard"
        ),
        "config:1: illegal reuse of 'u :: Unqueue' pull input 0\n\
         config:1: illegal reuse of 'u :: Unqueue' pull input 0\n\
         config:2: illegal reuse of 'i2 :: Source' push output 0\n\
         config:2: illegal reuse of 'i2 :: Source' push output 0\n\
         config:1: 'q3 :: Queue' input 0 unused\n\
         config:1: 'q3 :: Queue' output 0 unused\n"
    );
    assert_eq!(errors("Idle->c::Counter"), "config:1: 'c :: Counter' output 0 unused\n");
}

#[test]
fn the_rich_form_marks_the_connection_and_has_advice() {
    let loaded = checked("s :: Source;\nu :: Unqueue -> Discard;\ns -> u;\n");
    let rich = loaded.found.rich(&loaded.sources, false);
    assert!(rich.contains("3 | s -> u;"), "{rich}");
    assert!(rich.contains("put a Queue between them"), "{rich}");
    let loaded = checked("s :: Source;\nd :: Discard;\ns -> [3] d;\n");
    let rich = loaded.found.rich(&loaded.sources, false);
    assert!(rich.contains("s -> [3] d;") && rich.contains("there is only input 0"), "{rich}");
}

#[test]
fn names_are_looked_for_inside_out() {
    let plan = plan("a :: Idle; c :: { a :: Idle; d :: { b :: Idle } }");
    let at = |name: &str| plan.find(name);
    assert_eq!(plan.resolve("a", "c/d/b"), at("c/a"));
    assert_eq!(plan.resolve("a", "a"), at("a"));
    assert_eq!(plan.resolve("d/b", "c/a"), at("c/d/b"));
    assert_eq!(plan.resolve("b", "a"), None);
}

#[test]
fn packets_that_take_several_ways_may_come_from_one_element() {
    let plan = plan(
        "s :: Source -> t :: Tee -> n :: Null -> p :: Pass -> Discard;
         t [1] -> n; t [2] -> n; t [3] -> Discard;
         u :: Source -> m :: Null -> [1] p [1] -> Discard; t [4] -> m;
         a :: Null -> b :: Null -> a; Idle -> [2] p [2] -> Discard;",
    );
    let origin = |name: &str, input| {
        let origin = plan.origin(plan.find(name).unwrap(), input)?;
        Some(plan.elements[origin].name.as_str())
    };
    // By three of another's outputs; from two elements; round and round.
    assert_eq!(origin("p", 0), Some("s"));
    assert_eq!(origin("p", 1), None);
    assert_eq!(origin("a", 0), None);
    assert_eq!(origin("p", 3), None);
}

#[test]
fn port_counts_fit_the_used_ports() {
    let cases = [
        ("1/1", (1, 2), (1, 1)),
        ("1/1-2", (1, 2), (1, 2)),
        ("1/1-2", (1, 0), (1, 1)),
        ("0-1/-", (3, 4), (1, 4)),
        ("1-/=", (3, 0), (3, 3)),
        ("-/=+", (2, 0), (2, 3)),
        ("1/-6", (1, 9), (1, 6)),
        ("2", (0, 0), (2, 2)),
    ];
    for (spec, used, expected) in cases {
        assert_eq!(fitting_ports(spec, used), expected, "{spec} {used:?}");
    }
}

#[test]
fn flow_codes() {
    assert_eq!(flow_outputs("x/x", 0, 2), [0, 1]);
    assert_eq!(flow_outputs("x/y", 0, 2), Vec::<usize>::new());
    assert_eq!(flow_outputs("xy/x", 0, 1), [0]);
    assert_eq!(flow_outputs("xy/x", 1, 1), Vec::<usize>::new());
    assert_eq!(flow_outputs("#/#", 1, 3), [1]);
    assert_eq!(flow_outputs("#/[^#]", 1, 3), [0, 2]);
    assert_eq!(flow_outputs("xy/[xy]x", 1, 2), [0]);
}
