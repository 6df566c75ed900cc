//! Flows: changes of them, requests for them, and their statistics.

use super::error::{Fail, Parsed};
use super::scan::{Pair, Pairs};
use super::{Syntax, TextError, action, matching, number};
use crate::wire::multipart::{FlowRequest, FlowStats};
use crate::wire::{
    ALL_TABLES, ANY_GROUP, CookieFilter, Elapsed, FlowFlags, FlowMod, FlowModCommand, Match,
    PortNumber, Version,
};

/// The default priority of a flow.
const PRIORITY: u16 = 32768;

/// Words for commands on flows.
const COMMANDS: [(&str, FlowModCommand); 5] = [
    ("add", FlowModCommand::Add),
    ("modify", FlowModCommand::Modify),
    ("modify_strict", FlowModCommand::ModifyStrict),
    ("delete", FlowModCommand::Delete),
    ("delete_strict", FlowModCommand::DeleteStrict),
];

/// Words that are flags, and their flags.
const FLAGS: [(&str, FlowFlags); 5] = [
    ("send_flow_rem", FlowFlags::SEND_FLOW_REMOVED),
    ("check_overlap", FlowFlags::CHECK_OVERLAP),
    ("reset_counts", FlowFlags::RESET_COUNTS),
    ("no_packet_counts", FlowFlags::NO_PACKET_COUNTS),
    ("no_byte_counts", FlowFlags::NO_BYTE_COUNTS),
];

/// Other words of flows.
const KEYS: [&str; 9] = [
    "table",
    "priority",
    "cookie",
    "idle_timeout",
    "hard_timeout",
    "importance",
    "out_port",
    "out_group",
    "actions",
];

/// Words of printed flows that changes of flows do not have.
const IGNORED: [&str; 7] = [
    "duration",
    "n_packets",
    "n_bytes",
    "idle_age",
    "hard_age",
    "no_readonly_table",
    "allow_hidden_fields",
];

/// Parts of a text, before they are checked together.
#[derive(Debug, Default)]
struct Parts<'t> {
    table: Option<u8>,
    priority: Option<(u16, &'t str)>,
    cookie: Option<(u64, Option<u64>, &'t str)>,
    idle_timeout: u16,
    hard_timeout: u16,
    importance: u16,
    out_port: Option<PortNumber>,
    out_group: Option<u32>,
    flags: FlowFlags,
    /// The first word that is only of flows to add or change.
    of_new: Option<&'t str>,
    /// The first word that is only of flows to find.
    of_old: Option<&'t str>,
    matching: Match,
    actions: Option<&'t str>,
}

impl Syntax<'_> {
    /// A change of flows.
    ///
    /// Words that are not for this change are errors: a deletion has no actions.
    pub fn flow(&self, text: &str, command: FlowModCommand) -> Result<FlowMod, TextError> {
        self.parse_flow(text, command).map_err(|fail| fail.within(text))
    }

    /// Parses a change of flows that may begin with its command: `add`, `modify`, `modify_strict`,
    /// `delete` or `delete_strict`.
    pub fn flow_line(&self, text: &str, otherwise: FlowModCommand) -> Result<FlowMod, TextError> {
        let start = text.trim_start();
        let end = start.find([',', ' ', '\t']).unwrap_or(start.len());
        let command = COMMANDS.iter().find(|(word, _)| *word == &start[..end]);
        let parsed = match command {
            Some(&(_, command)) => self.parse_flow(&start[end..], command),
            None => self.parse_flow(text, otherwise),
        };
        parsed.map_err(|fail| fail.within(text))
    }

    /// Parses a filter of flows; an empty text is all.
    pub fn request(&self, text: &str) -> Result<FlowRequest, TextError> {
        let parse = || {
            let parts = self.parts(text)?;
            refuse(parts.of_new.or(parts.actions), "flows are found by what they match")?;
            refuse(parts.priority.map(|(_, at)| at), "flows are not found by priority")?;
            let filter = filter(&parts)?;
            Ok(FlowRequest {
                table: parts.table.unwrap_or(ALL_TABLES),
                out_port: parts.out_port.unwrap_or(PortNumber::ANY),
                out_group: parts.out_group.unwrap_or(ANY_GROUP),
                filter,
                matching: parts.matching,
            })
        };
        parse().map_err(|fail: Fail<'_>| fail.within(text))
    }

    fn parts<'t>(&self, text: &'t str) -> Parsed<'t, Parts<'t>> {
        let mut parts = Parts::default();
        let mut builder = matching::MatchBuilder::default();
        for pair in Pairs::new(text) {
            // Errors in the actions are found when these are read.
            let pair = pair?;
            if matches!(pair.key, "actions" | "action") {
                parts.actions = Some(pair.rest);
                break;
            }
            if !self.word(&pair, &mut parts)? && !builder.take(&pair, self.names())? {
                return Err(self.unknown(pair.key));
            }
        }
        parts.matching = builder.finish(self.version())?;
        Ok(parts)
    }

    fn unknown<'t>(&self, key: &'t str) -> Fail<'t> {
        let flags = FLAGS.iter().map(|&(name, _)| name);
        let words = KEYS.into_iter().chain(flags).chain(matching::words());
        Fail::unknown(key, "field", words)
    }

    /// Takes a word outside of the match, and returns true if it is one.
    fn word<'t>(&self, pair: &Pair<'t>, parts: &mut Parts<'t>) -> Parsed<'t, bool> {
        let seconds = || number::u16(pair.wanted()?, "a number of seconds");
        let flag = FLAGS.iter().find(|(name, _)| *name == pair.key);
        if let Some(&(_, flag)) = flag {
            parts.flags = parts.flags.with(flag);
            parts.of_new.get_or_insert(pair.key);
            return Ok(true);
        }
        match pair.key {
            "table" => parts.table = Some(self.names().table(pair.wanted()?)?),
            "priority" => {
                parts.priority = Some((number::u16(pair.wanted()?, "a priority")?, pair.whole));
            }
            "cookie" => {
                let text = pair.wanted()?;
                let (value, mask) =
                    text.split_once('/').map_or((text, None), |(value, mask)| (value, Some(mask)));
                let value = number::u64(value, "a cookie")?;
                let mask = mask.map(|mask| number::u64(mask, "a mask of cookies")).transpose()?;
                parts.cookie = Some((value, mask, pair.whole));
            }
            "idle_timeout" => parts.idle_timeout = seconds()?,
            "hard_timeout" => parts.hard_timeout = seconds()?,
            "importance" => parts.importance = number::u16(pair.wanted()?, "an importance")?,
            "out_port" => parts.out_port = Some(self.names().port(pair.wanted()?)?),
            "out_group" => {
                let text = pair.wanted()?;
                parts.out_group = Some(match text.to_ascii_lowercase().as_str() {
                    "any" => ANY_GROUP,
                    "all" => crate::wire::group::ALL_GROUPS,
                    _ => number::u32(text, "the number of a group")?,
                });
            }
            key if IGNORED.contains(&key) => {}
            _ => return Ok(false),
        }
        match pair.key {
            "idle_timeout" | "hard_timeout" | "importance" => {
                parts.of_new.get_or_insert(pair.whole);
            }
            "out_port" | "out_group" => {
                parts.of_old.get_or_insert(pair.whole);
            }
            _ => {}
        }
        Ok(true)
    }

    fn parse_flow<'t>(&self, text: &'t str, command: FlowModCommand) -> Parsed<'t, FlowMod> {
        let parts = self.parts(text)?;
        let (old, add) = (self.version() == Version::V10, command == FlowModCommand::Add);
        let mut instructions = Vec::new();
        let mut cookie = if add || old { Some(0) } else { None };
        if command.deletes() {
            refuse(parts.of_new, "a deletion does not say this")?;
            refuse(parts.actions, "a deletion has no actions")?;
            if command == FlowModCommand::Delete {
                let what = "all priorities are deleted";
                refuse(parts.priority.map(|(_, at)| at), what)
                    .map_err(|fail| fail.help("a strict deletion deletes one"))?;
            }
        } else {
            refuse(parts.of_old, "only deletions and requests say this")?;
            let Some(actions) = parts.actions else {
                return Err(
                    Fail::new(text, "there are no actions").help("actions=drop drops packets")
                );
            };
            let mut scope = action::Scope::new(*self, &parts.matching);
            instructions = action::parse_instructions(actions, &mut scope)?;
        }
        let mut filter = CookieFilter::default();
        match parts.cookie {
            Some((value, None, _)) if add || (old && !command.deletes()) => cookie = Some(value),
            // As flows are printed.
            Some((0, None, _)) if !command.deletes() => {}
            Some((_, None, at)) if !command.deletes() => {
                let fail = Fail::new(at, "OpenFlow changes no cookies since 1.1");
                return Err(fail.help(
                    "cookie=…/-1 finds flows by theirs, and adding a flow again replaces it",
                ));
            }
            Some((_, Some(_), at)) if add => {
                return Err(Fail::new(at, "a flow that is added has a cookie without a mask"));
            }
            _ => filter = self::filter(&parts)?,
        }
        if old && filter.mask != 0 && !command.deletes() && parts.cookie.is_some() {
            cookie = Some(u64::MAX);
        }
        let table = parts.table.unwrap_or(if command.deletes() { ALL_TABLES } else { 0 });
        if table == ALL_TABLES && !command.deletes() {
            return Err(Fail::new(text, "there is no table 255 to put a flow in"));
        }
        let flow = FlowMod {
            command,
            table,
            cookie,
            filter,
            idle_timeout: parts.idle_timeout,
            hard_timeout: parts.hard_timeout,
            priority: parts.priority.map_or(PRIORITY, |(priority, _)| priority),
            buffer: None,
            out_port: parts.out_port.unwrap_or(PortNumber::ANY),
            out_group: parts.out_group.unwrap_or(ANY_GROUP),
            flags: parts.flags,
            importance: parts.importance,
            matching: parts.matching,
            instructions,
        };
        if let Some(actions) = parts.actions {
            self.check(&flow, actions)?;
        }
        Ok(flow)
    }

    /// Checks that the instructions of a flow fit its match and its table.
    fn check<'t>(&self, flow: &FlowMod, actions: &'t str) -> Parsed<'t, ()> {
        use crate::wire::Instruction;
        let back = |instruction: &Instruction| match instruction {
            Instruction::GotoTable(to) => *to <= flow.table,
            _ => false,
        };
        if flow.instructions.iter().any(back) {
            let what = format!("a flow of table {} goes on in a later one", flow.table);
            return Err(Fail::new(actions, what));
        }
        if self.version() == Version::V10 || flow.check().is_ok() {
            return Ok(());
        }
        let fail = Fail::new(actions, "an action needs a header that packets may not have");
        Err(fail.help("what sets a field of TCP is for flows that match tcp, and so on"))
    }

    /// Prints a change of flows, without the word for its command.
    #[must_use]
    pub fn print_flow(&self, flow: &FlowMod) -> String {
        let mut words = Vec::new();
        let table = if flow.command.deletes() { ALL_TABLES } else { 0 };
        if flow.table != table {
            words.push(format!("table={}", self.names().print_table(flow.table)));
        }
        match flow.filter {
            CookieFilter { mask: 0, .. } => match flow.cookie {
                Some(cookie) if cookie != 0 && !flow.command.deletes() => {
                    words.push(format!("cookie={cookie:#x}"));
                }
                _ => {}
            },
            CookieFilter { value, mask } => words.push(format!("cookie={value:#x}/{mask:#x}")),
        }
        words.extend(conditions(flow.idle_timeout, flow.hard_timeout, flow.flags, flow.importance));
        if flow.out_port != PortNumber::ANY {
            words.push(format!("out_port={}", self.names().print_port(flow.out_port)));
        }
        if flow.out_group != ANY_GROUP {
            words.push(format!("out_group={}", flow.out_group));
        }
        let mut text: String = words.into_iter().map(|word| word + ", ").collect();
        let shown = flow.command != FlowModCommand::Delete && flow.priority != PRIORITY;
        text += &self.conditions(shown.then_some(flow.priority), &flow.matching);
        if flow.command.deletes() {
            return text.trim_end_matches([',', ' ']).to_owned();
        }
        if !text.is_empty() && !text.ends_with(' ') {
            text.push(' ');
        }
        text + "actions=" + &self.print_instructions(&flow.instructions)
    }

    /// Priority and match.
    fn conditions(&self, priority: Option<u16>, matching: &Match) -> String {
        let mut parts: Vec<String> =
            priority.map(|number| format!("priority={number}")).into_iter().collect();
        if !matching.is_empty() {
            parts.push(self.print_match(matching));
        }
        parts.join(",")
    }

    /// Prints a flow with its statistics, in the form of `ovs-ofctl dump-flows`.
    #[must_use]
    pub fn print_flow_stats(&self, flow: &FlowStats) -> String {
        let mut words = vec![
            format!("cookie={:#x}", flow.cookie),
            format!("duration={}", print_elapsed(flow.duration)),
            format!("table={}", self.names().print_table(flow.table)),
        ];
        for (name, count) in [("n_packets", flow.packets), ("n_bytes", flow.bytes)] {
            if count != u64::MAX {
                words.push(format!("{name}={count}"));
            }
        }
        words.extend(conditions(flow.idle_timeout, flow.hard_timeout, flow.flags, flow.importance));
        for (name, age) in [("idle_age", flow.idle), ("hard_age", flow.unchanged)] {
            let seconds = age.map(|age| age.seconds);
            if seconds.is_some() && (name == "idle_age" || seconds != Some(flow.duration.seconds)) {
                words.extend(seconds.map(|seconds| format!("{name}={seconds}")));
            }
        }
        let priority = (flow.priority != PRIORITY).then_some(flow.priority);
        let conditions = self.conditions(priority, &flow.matching);
        let space = if conditions.is_empty() { "" } else { " " };
        let actions = self.print_instructions(&flow.instructions);
        format!("{}, {conditions}{space}actions={actions}", words.join(", "))
    }
}

/// Time-outs, flags and importance, where they are not the usual ones.
fn conditions(idle: u16, hard: u16, flags: FlowFlags, importance: u16) -> Vec<String> {
    let mut words = Vec::new();
    for (name, number) in [("idle_timeout", idle), ("hard_timeout", hard)] {
        if number != 0 {
            words.push(format!("{name}={number}"));
        }
    }
    let set = FLAGS.iter().filter(|(_, flag)| flags.contains(*flag));
    words.extend(set.map(|(name, _)| (*name).to_owned()));
    if importance != 0 {
        words.push(format!("importance={importance}"));
    }
    words
}

/// Seconds with three digits behind the point.
fn print_elapsed(elapsed: Elapsed) -> String {
    match elapsed.duration() {
        Some(duration) => {
            format!("{}.{:03}s", duration.as_secs(), duration.subsec_millis())
        }
        None => "?".to_owned(),
    }
}

fn refuse<'t>(at: Option<&'t str>, what: &str) -> Parsed<'t, ()> {
    match at {
        Some(at) => Err(Fail::new(at, what)),
        None => Ok(()),
    }
}

/// The cookies flows are found by.
fn filter<'t>(parts: &Parts<'t>) -> Parsed<'t, CookieFilter> {
    match parts.cookie {
        None => Ok(CookieFilter::default()),
        Some((value, Some(mask), _)) => Ok(CookieFilter { value: value & mask, mask }),
        Some((value, None, at)) => {
            let fail = Fail::new(at, "flows are found by a cookie under a mask");
            Err(fail.help(format!("cookie={value:#x}/-1")))
        }
    }
}
