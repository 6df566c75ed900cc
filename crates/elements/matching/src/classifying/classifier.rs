//! `Classifier`: selects the output by patterns of bytes.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Right,
};
use linerate_memory::Frame;

use super::{FAMILY, pattern};
use crate::decision::{Headers, Matcher, Program, To};

pub(super) const CLASS: Class = Class {
    name: "Classifier",
    reconfigured: Some(Right::Write),
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
    handlers: &[Handler::read("program", "the steps by which packets are classified").flags(".")],
    drops: Reason::REASONS,
    cost: "Every word looked at is read once per packet; the steps of a program of up to 24 are \
        decided for sixteen packets at a time without branches. Where the first word decides \
        about all packets of a frame, the others are not read; behind a frame where it does not, \
        15 are decided by all words at once. A frame whose packets all go one way is handed on \
        whole.",
    example: "InfiniteSource(LIMIT 10, STOP true)\n  \
        -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
        c [0] -> Discard; c [1] -> Discard; c [2] -> Discard; c [3] -> Discard;",
    make: |make| Box::new(Classifier::new(make)),
    ..Class::here()
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no pattern matches
    Unmatched,
}

struct Classifier {
    matcher: Matcher,
}

impl Classifier {
    fn new(make: &mut ElementBuilder<'_>) -> Classifier {
        let texts = make.rest();
        let outputs = make.outputs();
        let mut rules = Vec::new();
        let mut errors = Vec::new();
        if texts.len() == outputs {
            let parse = |(at, text): (usize, &String)| {
                (pattern::parse(at, text, &mut errors).formula(), To::Output(at))
            };
            rules = texts.iter().enumerate().map(parse).collect();
        } else {
            errors.push(format!("need {outputs} arguments, one per output port"));
        }
        let program = Program::first_of(&rules);
        if errors.is_empty() {
            for output in (0..outputs).filter(|output| !program.reaches(To::Output(*output))) {
                make.warn(format!("output {output} matches no packets"));
            }
        }
        errors.into_iter().for_each(|error| make.error(error));
        Classifier {
            matcher: Matcher::new(program, &rules, Headers::Packet, make.world.frame_limit),
        }
    }
}

impl Element for Classifier {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.matcher.send(cx, frame, Reason::Unmatched);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "program" => Ok(self.matcher.program().to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Patterns, the output Click 2.1 sends each packet to (x for none), and
    /// the packets.
    const CASES: &[(&str, &str, &[&str])] = &[
        (
            "12/0806 20/0001, 12/0806 20/0002, 12/0800, -",
            "333333232333",
            &[
                "010712000080",
                "ff0080020000",
                "000200800700ff00",
                "12ff0102ff0600020080010307018000ff0380120100",
                "120206008000ff00ff02401208060640ff40060300",
                "0200ff123456789003ff00008007010601400700120080ff060606ff40ff40000003",
                "1200000312ff12400307120608004501ff0040000203011107074000014007800301",
                "0307061234567890010102120200",
                "0103030001078006ffff0601080045120040128007",
                "0700401207000200",
                "010006ff000000ff01800006ff",
                "02",
            ],
        ),
        (
            "!12/0800, 12/08??",
            "000000000000",
            &[
                "01120306ff064000",
                "40404003000100060340018008",
                "0601800080031200031106010602",
                "80061202ff020207020280400600",
                "034003020102030405000200024002060240ffff00401206120012000702400107120600074007000101010001ff401201ffff401206018080010000",
                "008001020206000302038002ff060380070100064012",
                "07800180018080004001ff000806",
                "ff008000061280808040008008",
                "030000",
                "8000004006ff80ff8011034080",
                "40800280038002400111000740060012020700021203000112120601030140020000110112020107800706070206060006000680404000070680ff03",
                "00",
            ],
        ),
        (
            "0/01%01, 3/1234567890, -",
            "220222222220",
            &[
                "00",
                "0001010207",
                "0701801234",
                "060003000107000300120003080602000300400000020703ff010080020001030001",
                "1203801234",
                "1201030600030000008080020806",
                "00121207124080078003020208",
                "12010706000100001203070108061207801203ff0002004001010340000306068006",
                "",
                "060100",
                "0040038012020280",
                "03",
            ],
        ),
        (
            "12/0800 !23/06, 12/0800 14/4?, 9/11 33/0011",
            "xxxxxxxxxxxx",
            &[
                "07ff",
                "000303120200ff80",
                "ff07064001020304050080120780018080ff0012ff12",
                "02000000011206000740800008061280120240030040",
                "80800102800640030003020202124040070040120300ff12120200ff0106031203ff",
                "0040",
                "03120002124003800311404000",
                "030040",
                "4000804003",
                "0200ff",
                "8003",
                "ff12",
            ],
        ),
        (
            "12/????, -",
            "000000000000",
            &[
                "0006024040",
                "",
                "",
                "40070301070607060006000608004502000303060007",
                "000601020007000012031201020307800602060700",
                "80800200000740ff",
                "03400080010140070603030308060712020340801207",
                "1201",
                "804080",
                "06400701800202000106800008",
                "03ff02000707",
                "8002070306004003ff060112080045020003020707124011030001000740ff400000",
            ],
        ),
        (
            "1/80, !1/40%c0, -",
            "211111111111",
            &[
                "4040020002010180120012400080",
                "",
                "ff0012",
                "0112038012",
                "00000102800702070302ff0000800340030612024080028002000712030000024012",
                "0003021207060240",
                "0607061207020003800002400806020240020303000240ff010240071200ff010700",
                "",
                "0700",
                "",
                "4006010201070201",
                "4000031207060640010000000800",
            ],
        ),
        (
            "2/0102 5/06, !2/0102 5/07, 5/06",
            "xxxxxxxxxxxx",
            &[
                "0080020706030700",
                "400206804002060640001207080007000700400000030200ff06060306ff00030603",
                "",
                "ff1201020207404007030740014001000301ff0206064006ff00800207010207001200408080060107000003ff0002000740400102010740ff120280",
                "00030303ff030603030240020800450103ff0206000703068080021200124000000040024006000302000002ffff020006800140ff0312000012ffff",
                "000606",
                "",
                "00ff120200",
                "1206011234567890",
                "4000070001020304058000120107",
                "0703120307",
                "ff06070700",
            ],
        ),
        (
            "!4/0102030405, 0/00, -",
            "000000000000",
            &[
                "0207070200070107000007ff08060101000080011207",
                "ff0601020106030180010000074002030100400600",
                "0700ff011202ff07ff02400108060007800107060002",
                "020001020006060007ff40801203120703ff0207071206408040010000ff40400240",
                "400140070000010607060040808012000012010006800000800712010000ff00020140030112020006ff030106ff03400103804002ff03ff80020606",
                "010701",
                "1206070103",
                "80001206408080ff001180120706030706ff01060600400201ff000380030312ff00110000020103ff120707800600014002ff1200000000ff060300",
                "800207ff03ff",
                "06ff40",
                "0002",
                "4000",
            ],
        ),
        (
            "0/00 1/00, 0/01 1/00, 0/02, 0/03, !3/ff",
            "442021444444",
            &[
                "01120307030000128011ff12ff40ff80400201000000",
                "",
                "0201",
                "0000ff80120201070280ff1208061207ff01800300021200408000070740001240010200030212000006030003128012071280030312020080000103",
                "020106020706ff020712128008068000000702ff000107ffff00ff010100000000ff",
                "010001020107",
                "",
                "00",
                "060280120007000202020000080600121203400001",
                "1202010206070300060303000606ff804003ff00070007800006400080ff0200ff030107008002030000064000400140ff068003ff01030202400100",
                "00408000010203040507000712000602030307808001071202400180ffff120006ff0680014012800601404003ff02010640120280020303ff010102",
                "ff8006010206",
            ],
        ),
    ];

    #[test]
    fn packets_leave_where_click_sends_them() {
        for limit in [1, 5, 256] {
            for (patterns, outputs, packets) in CASES {
                let count = patterns.split(',').count();
                let mut text = format!("c :: Classifier({patterns});");
                for output in 0..count {
                    text += &format!("c [{output}] -> out{output} :: Collect;");
                }
                // All packets are in frames together.
                text += "all :: Packets(";
                for packet in *packets {
                    text += if packet.is_empty() { "-" } else { packet };
                    text += " ";
                }
                text += ") -> c;";
                let mut run = Run::new(&text).frame_limit(limit);
                run.run();
                for output in 0..count {
                    let name = output.to_string();
                    let expected: Vec<&str> = outputs
                        .chars()
                        .zip(*packets)
                        .filter(|(to, _)| to.to_string() == name)
                        .map(|(_, packet)| *packet)
                        .collect();
                    let seen = run.read(&format!("out{output}.packets"));
                    assert_eq!(seen, expected.join("\n"), "{patterns} [{output}] {limit}");
                }
                let unmatched = outputs.chars().filter(|to| *to == 'x').count();
                let drops = run.read("c.drops");
                if unmatched > 0 {
                    assert!(drops.contains(&unmatched.to_string()), "{drops}");
                }
            }
        }
    }

    #[test]
    fn a_pattern_for_every_output() {
        for (config, outputs) in [("12/0800, -", 1), ("", 1), ("-", 2)] {
            let text = format!("Idle -> c :: Classifier({config});");
            let ends = (0..outputs).map(|at| format!("c [{at}] -> Discard;")).collect::<String>();
            let errors = Run::errors(&(text + &ends));
            let error = format!("need {outputs} arguments, one per output port");
            assert!(errors.contains(&error), "{errors}");
        }
    }

    #[test]
    fn an_output_nothing_reaches_is_warned_of() {
        let mut run =
            Run::new("Idle -> c :: Classifier(-, 12/0800); c -> Discard; c [1] -> Discard");
        assert!(run.read("c.program").starts_with("all->[0]\n"));
        assert_eq!(
            run.output(),
            "config:1: While configuring 'c :: Classifier':\n  \
             warning: output 1 matches no packets\n"
        );
        run.write("c.config", "12/0800, -").unwrap();
        run.write("c.config", "-, 12/0806").unwrap();
        let output = run.output();
        let later: Vec<_> = output.lines().skip(2).collect();
        assert_eq!(
            later,
            ["While calling 'c.config -, 12/0806':", "  warning: output 1 matches no packets"]
        );
    }
}
