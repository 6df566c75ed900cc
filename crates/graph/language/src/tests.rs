//! Tests of the language as a whole.
//!
//! `corpus.txt` holds configurations and the answers of `click -q -o - -e CONFIG` of Click 2.1: the
//! flat text, or its messages. The other tests are about behaviour that the corpus cannot show.

use proptest::prelude::*;

use super::*;

struct KnownClasses;

const CLASSES: [&str; 12] = [
    "Discard",
    "DriverManager",
    "Idle",
    "InfiniteSource",
    "Message",
    "Null",
    "Paint",
    "Print",
    "PullNull",
    "Queue",
    "Tee",
    "Unqueue",
];

impl Classes for KnownClasses {
    fn contains(&self, name: &str) -> bool {
        CLASSES.contains(&name)
    }

    fn names(&self) -> Vec<&str> {
        CLASSES.to_vec()
    }
}

fn flat(text: &str) -> (Flat, Diagnostics, SourceMap) {
    flat_with(text, &[], &[])
}

fn flat_with(
    text: &str,
    variables: &[(&str, &str)],
    libraries: &[(&str, &str)],
) -> (Flat, Diagnostics, SourceMap) {
    let mut sources = SourceMap::new();
    let file = sources.add("config", text);
    let variables =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut loader = |name: &str, _: &str| {
        let library = libraries.iter().find(|(path, _)| *path == name);
        library
            .map(|(path, text)| Library { path: (*path).into(), text: (*text).into() })
            .ok_or(None)
    };
    let (flat, found) =
        load(&mut sources, file, &KnownClasses, &Globals { variables }, &mut loader);
    (flat, found, sources)
}

/// Returns the output of `click -q -o -` on both its streams.
fn answer(text: &str) -> String {
    let (flat, found, _) = flat(text);
    let mut out = found.click();
    if !found.has_errors() {
        out.push_str(&flat.unparse());
    }
    out
}

#[test]
fn click_answers_the_same() {
    let mut cases = 0;
    for case in include_str!("corpus.txt").split("\n====\n") {
        let (config, expected) = case.split_once("\n----\n").expect("a case has two parts");
        assert_eq!(answer(config).trim_end(), expected.trim_end(), "\n{config}");
        cases += 1;
    }
    assert!(cases > 100, "{cases}");
}

/// The flat text of a configuration is its own flat text.
#[test]
fn flat_text_is_stable() {
    for case in include_str!("corpus.txt").split("\n====\n") {
        let (config, _) = case.split_once("\n----\n").expect("a case has two parts");
        let (first, found, _) = flat(config);
        if found.has_errors() {
            continue;
        }
        same_again(&first, config);
    }
}

fn same_again(first: &Flat, config: &str) {
    let (second, found, _) = flat(&first.unparse());
    assert_eq!(found.click(), "", "\n{config}\n{}", first.unparse());
    assert_eq!(first.unparse(), second.unparse(), "\n{config}");
    let ends = |flat: &Flat| -> Vec<_> {
        flat.connections.iter().map(|connection| (connection.from, connection.to)).collect()
    };
    assert_eq!(ends(first), ends(&second), "\n{config}");
    assert_eq!(first.requirements, second.requirements, "\n{config}");
}

/// Connections that Click reads and then refuses, for reasons that are not the
/// language's.
#[test]
fn connections() {
    for (config, expected) in [
        ("a -> b; a -> b, b; a -> b", &["a -> b"][..]),
        ("a [0,2-4] => b, b, b, [7]b", &["a -> b", "a [2] -> b", "a [3] -> b", "a [4] -> [7] b"]),
        ("a [2-] => [5-6]b", &["a [2] -> [5] b", "a [3] -> [6] b"]),
        ("a [3-5] => [1,2-]b", &["a [3] -> [1] b", "a [4] -> [2] b", "a [5] -> [3] b"]),
        ("a [3-5] -> b", &["a [3] -> b", "a [4] -> b", "a [5] -> b"]),
        ("a => [3,1] b", &["a [1] -> [1] b", "a -> [3] b"]),
        ("a [] -> b; b -> [] a", &["b -> a\n    -> b"]),
        ("a [1,] => b, c, b", &["a [1] -> b", "a [3] -> b", "a [2] -> c"]),
        ("a, c [2] -> b", &["a -> b", "c [2] -> b"]),
        ("a => b => c", &["a -> b\n    -> c"]),
        ("a => b, [5-]c, a", &["a [2] -> a\n    -> b", "a [1] -> [5] c"]),
        (
            "a -> b -> c -> a; b [1] -> a; c -> c",
            &["b [1] -> a\n    -> b\n    -> c\n    -> a", "c -> c"],
        ),
        ("a [1] -> { [0] -> [0] } -> [3] b; a -> { -> } -> b", &["a -> b", "a [1] -> [3] b"]),
        (
            "a -> ( -> c; [1] -> ) -> b; c [4] -> (-> a; [1] -> b)",
            &["c [4] -> a\n    -> b", "c [4] -> b", "a -> c"],
        ),
        (
            "a => [1] b [1], (-> c => (->), [3] c ->) -> b",
            &["b [1] -> b", "a -> [1] b", "a [1] -> c\n    -> b", "c [1] -> [3] c"],
        ),
    ] {
        let (flat, found, _) = flat(&format!("a, b, c :: Idle; {config}"));
        let text = flat.unparse();
        let (_, links) = text.split_once("\n\n").expect("a blank line after the elements");
        let got: Vec<_> = links.split_terminator(";\n").collect();
        assert_eq!((found.click().as_str(), got.as_slice()), ("", expected), "\n{config}");
    }
}

#[test]
fn configurations() {
    for (config, expected) in [
        (
            "Idle(a /* c */   b,\n // d\n \"c\td\"  ,  )",
            &["a /* c */   b,\n // d\n \"c\td\"  ,  "][..],
        ),
        (
            "define($a $b, $b 7, $c $c) Idle($a, \"$a\", '$a', ${a-3}, ${z-$a})",
            &["7, \"7\", '$a', 7, 7"],
        ),
        (
            "define($o a b, $n 3) Idle($o, ${n}, \"${o}\", $n/$n, $$n, ${o[1]})",
            &["a b, 3, \"a b\", 3/3, $$n, b"],
        ),
        (
            "define($w 12, $q \"a b\") a::{$w|{Idle($w \"$q\" '$q')}}($q)",
            &["\"a b\" \"\\\"a b\\\"\" '$q'"],
        ),
        ("a :: { $x, Y $z | Idle($x, $z, $w) }(1, Y 7)", &["1, 7, $w"]),
        ("Idle, Idle(1)", &["1", "1"]),
        ("a, b :: Idle(1); c :: Idle", &["1", "1", ""]),
        (
            "elementclass T { $a, LIMIT $l, __REST__ $r | Idle($a|$l|$r) } T(1, LIMIT 2, 3, A 4); T(5, LIMIT)",
            &["1|2|3, A 4", "5||"],
        ),
        (
            "elementclass A { $a | define($b $a, $c $b$a) { Idle($b $c) } } A(1); A(2)",
            &["1 11", "2 22"],
        ),
        (
            "elementclass Outer { $v |
               elementclass Pair { $w | Idle($v, $w) }
               elementclass Shadow { $v | Idle($v); Pair(in $v) }
               Shadow(deep); Pair(flat)
             }
             o :: Outer(top)",
            &["deep", "top, in deep", "top, flat"],
        ),
        ("elementclass A { $a | Idle($a, \"$a\") } A( x  /* y */ z )", &["x z, \"x z\""]),
        ("elementclass A { __REST__ $r | Idle($r) } A(,  a , ,b ,)", &[", a, , b"]),
    ] {
        let (flat, found, _) = flat(config);
        let got: Vec<_> = flat.elements.iter().map(|element| element.config.as_str()).collect();
        assert_eq!((found.click().as_str(), got.as_slice()), ("", expected), "\n{config}");
    }
}

/// Deviations where Click goes wrong.
#[test]
fn deviations() {
    for (config, expected) in [
        // Click does not count a line that ends in a backslash inside quotes.
        ("Idle(\"a\\\nb\")\nNope", "config:3: undeclared element 'Nope'\n"),
        // Click tries an empty compound between the bodies and the extension.
        ("elementclass Idle { $a | Null || ... } Idle", "Idle@1 :: Idle;\n\n"),
        // Click would make that many ports.
        (
            "Idle [0-4000000000] -> Discard",
            "config:1: port number 4000000000 too large (the highest is 65535)\n",
        ),
        // Click reads no further than its own limit either, but complains of
        // every closing brace.
        (
            &format!("{}Idle{}", "{".repeat(60), "}".repeat(60)),
            "config:1: maximum compound element nesting depth exceeded\n",
        ),
        // Click takes the text byte by byte.
        ("é", "config:1: syntax error near 'é'\n"),
    ] {
        assert_eq!(answer(config), expected, "\n{config}");
    }
}

#[test]
fn packages_are_required() {
    let (flat, found, _) = flat("require(a, package \"b c\", compact_config); require(d); Idle");
    assert_eq!(found.click(), "");
    assert_eq!(
        flat.unparse(),
        "require(package \"a\", package \"b c\", compact_config, package \"d\");\n\n\
         Idle@1 :: Idle;\n\n"
    );
}

#[test]
fn the_source_is_kept_unless_compact() {
    let (flat, _, sources) = flat("Idle // x");
    assert_eq!(flat.config(&sources), "Idle // x");
    let (flat, _, sources) = super::tests::flat("require(compact_config) Idle // x");
    assert_eq!(flat.config(&sources), flat.unparse());
}

#[test]
fn variables_from_outside_win() {
    let text = "define($a 1, $b $a) {Idle($a $b $c)}";
    let (flat, found, _) = flat_with(text, &[("a", "7"), ("c", "$b")], &[]);
    assert_eq!(found.click(), "");
    assert_eq!(flat.elements[0].config, "7 7 7");
}

#[test]
fn parameters_of_compounds_are_no_variables_of_the_configuration() {
    let text = "require(library one) define($a 1, $b $c)
        elementclass Compound { $parameter, KEY $key |
            Idle($parameter $key $inner $d) -> Discard; define($inner $e) };
        { $other | Idle($other $f) -> Discard }(${g-$h});
        elementclass Unused { Idle($i) -> Discard } Idle -> Print('$quoted') -> Discard";
    let libraries = [("one", "define($j 2) elementclass Of { $of | Idle($of $k) -> Discard }")];
    let (flat, found, _) = flat_with(text, &[], &libraries);
    assert_eq!(found.click(), "");
    let names: Vec<&str> = flat.variables.iter().map(String::as_str).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]);
}

#[test]
fn libraries_are_read_once_and_in_place() {
    let libraries = [
        ("one", "require(library two) elementclass A { b :: B }"),
        ("two", "require(library one, library two)\nelementclass B { Idle }"),
        ("bad", "Idle ->\n\n; Nope\n;"),
    ];
    let (flat, found, _) = flat_with("require(library one, library 'two') a :: A", &[], &libraries);
    assert_eq!(found.click(), "");
    assert_eq!(flat.elements[0].name, "a/b/Idle@1");

    let text = "Nope1; { require(library one) } require(library bad, library none) Nope2";
    let (_, found, _) = flat_with(text, &[], &libraries);
    assert_eq!(
        found.click(),
        "config:1: undeclared element 'Nope1'\n\
         config:1: 'require library' must be used at file scope\n\
         bad:3: syntax error near ';'\n\
         bad:3: undeclared element 'Nope'\n\
         config:1: library 'none' not found in CLICKPATH/conf\n\
         config:1: undeclared element 'Nope2'\n"
    );
}

#[test]
fn rich_messages_mark_the_place_and_suggest() {
    let text = "src :: InfinteSource(LIMIT 1)\n  -> Queue -> c :: { -> [1] } -> src2;\nsrc :: Idle";
    let (_, found, sources) = flat(text);
    let rich = found.rich(&sources, false);
    let expected = "\
error: unknown element class 'InfinteSource'
 --> config:1:8
  |
1 | src :: InfinteSource(LIMIT 1)
  |        ^^^^^^^^^^^^^
  |
  = help: did you mean 'InfiniteSource'?
";
    assert!(rich.starts_with(expected), "{rich}");
    assert!(rich.contains("help: did you mean 'src'?"), "{rich}");
    assert!(
        rich.contains("note: element 'src' previously declared here\n --> config:1:1"),
        "{rich}"
    );
}

#[test]
fn the_output_of_a_small_text_is_limited() {
    let mut doubling = "elementclass A0 { Idle; Idle }\n".to_owned();
    let mut chain = "elementclass A0 { -> Idle -> }\n".to_owned();
    let mut text = "elementclass A0 { $x | Idle($x) }\n".to_owned();
    let mut hubs = "elementclass H { -> output; -> [1]output }\n h0 :: Idle".to_owned();
    for level in 1..200 {
        let below = level - 1;
        doubling += &format!("elementclass A{level} {{ A{below}; A{below} }}\n");
        chain += &format!("elementclass A{level} {{ -> A{below} -> }}\n");
        text += &format!("elementclass A{level} {{ $x | A{below}($x$x$x$x) }}\n");
        hubs += &format!(" => h{level} :: H");
    }
    for (config, expected) in [
        (doubling.clone() + "A30", "more than 262144 elements"),
        (doubling + "A150", "more than 100 deep"),
        (chain + "Idle -> A150 -> Idle", "more than 100 deep"),
        (text + "A90(abcdefgh)", "names and configurations of more than"),
        (
            format!("{}\nx :: Idle -> h1", "elementclass H { -> output; -> output }"),
            "undeclared element 'h1'",
        ),
        ("Idle [0-65535] => ".repeat(40) + "Idle", "more than 1048576 connections"),
        ("(".repeat(100_000), "nesting depth exceeded"),
        ("a [".repeat(50_000), "further messages left out"),
        (format!("Idle [{}0]", "0-65535,".repeat(20)), "more than 1048576 ports in all lists"),
        (format!("Idle({})", "${".repeat(100_000)), ""),
    ] {
        let (_, found, _) = flat(&config);
        let messages = found.click();
        assert!(messages.contains(expected), "{expected}: {messages:.300}");
    }
}

/// Texts that would take time in the square of their length, or room.
#[test]
fn large_texts() {
    let many =
        |count: usize, part: &dyn Fn(usize) -> String| -> String { (0..count).map(part).collect() };
    for config in [
        many(30_000, &|n| format!("Idle@{}::Idle;", n + 30_000)) + &"Idle;".repeat(60_000),
        many(30_000, &|n| format!("define($a{n} {n}) Idle($a{n});")),
        many(2_000, &|n| format!("elementclass A {{ $a{n}, $b | Idle || ... }} A(1);")),
        format!("x :: {{ {} $a | Idle }}", many(30_000, &|n| format!("K{n} $k{n}, ")))
            + &format!("({})", many(30_000, &|n| format!("K{n} {n}, "))),
        "{ [65535] -> Idle };".repeat(3_000),
        "([65535] -> Idle), ".repeat(3_000),
        "a [0-65535], ".repeat(3_000),
        many(50_000, &|n| format!("Unknown{n} -> ")),
        "]".repeat(300_000),
        "{".repeat(40) + &"Idle;".repeat(50_000),
        "(Idle -> )".repeat(20_000),
        "x".repeat(1 << 20),
        "Idle -> ".repeat(50_000) + "Idle",
        format!("Idle({}", "\\<".repeat(300_000)),
        format!("define($a {}) {}", "x".repeat(100_000), "Idle(${a[1]});".repeat(20_000)),
    ] {
        let (flat, found, sources) = flat(&config);
        found.rich(&sources, false);
        flat.unparse();
    }
}

#[test]
fn many_paths_through_borders_end() {
    // Each stage doubles the paths, not the connections.
    let mut config = "elementclass H { input -> a :: (->); input -> b :: (->); a, b -> output }\n\
        Idle"
        .to_owned();
    for _ in 0..60 {
        config += " -> { -> x :: ( -> ) ; -> output }";
    }
    config += " -> Idle";
    let (_, found, _) = flat(&config);
    assert!(!found.click().contains("more than"), "{}", found.click());
}

const TOKENS: &[&str] = &[
    "a",
    "b",
    "c",
    "Idle",
    "Idle",
    "Foo",
    "A",
    "B",
    "input",
    "output",
    "->",
    "->",
    "->",
    "=>",
    "::",
    "::",
    ";",
    ";",
    "\n",
    ",",
    "(",
    ")",
    "{",
    "}",
    "{",
    "}",
    "||",
    "|",
    "...",
    "[0]",
    "[1]",
    "[]",
    "[0,1]",
    "[1-]",
    "[0-2]",
    "[",
    "]",
    "-",
    "$a",
    "$b",
    "elementclass A",
    "elementclass B {",
    "elementclass B { $a |",
    "require(compact_config)",
    "require(library l)",
    "define($a 1)",
    "define($b $a x)",
    "(1)",
    "($a)",
    "($b, \"$a\")",
    "(1, K 2)",
    "K $b",
    "__REST__ $a",
    "a :: Idle;",
    "{ -> }",
    "{ -> Idle -> }",
    "(->)",
    "/* x */",
    "// y\n",
    "# 5 \"foo\"\n",
    "#line 7\n",
    "provide",
    "7",
    "'",
    "\"",
    "\\<",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// For any text nothing panics, nothing hangs, and every message can be written in both forms.
    #[test]
    fn any_words(words in prop::collection::vec(prop::sample::select(TOKENS), 0..40)) {
        let text = words.join(" ");
        let (first, found, sources) = flat_with(&text, &[("a", "$b")], &[("l", "A -> {")]);
        found.rich(&sources, false);
        prop_assert_eq!(found.is_empty(), found.click().is_empty());
        if !found.has_errors() {
            same_again(&first, &text);
        }
    }

    #[test]
    fn any_text(text in "\\PC{0,60}") {
        let (_, found, sources) = flat(&text);
        found.rich(&sources, false);
    }

    /// A flat graph made at random is read back as it was.
    #[test]
    fn flat_graphs_survive(
        classes in prop::collection::vec(0..CLASSES.len(), 1..8),
        links in prop::collection::btree_set((0usize..8, 0usize..3, 0usize..8, 0usize..3), 0..20),
    ) {
        let mut text = String::new();
        for (index, class) in classes.iter().enumerate() {
            text += &format!("e{index} :: {}({index}, \"x\");\n", CLASSES[*class]);
        }
        let mut expected = Vec::new();
        for (to, to_port, from, from_port) in links {
            let (from, to) = (from % classes.len(), to % classes.len());
            text += &format!("e{from} [{from_port}] -> [{to_port}] e{to};\n");
            expected.push((
                PortRef { element: to, port: to_port },
                PortRef { element: from, port: from_port },
            ));
        }
        expected.sort();
        expected.dedup();
        let (first, found, _) = flat(&text);
        prop_assert_eq!(found.click(), "");
        let got: Vec<_> = first.connections.iter().map(|link| (link.to, link.from)).collect();
        prop_assert_eq!(got, expected);
        same_again(&first, &text);
    }
}
