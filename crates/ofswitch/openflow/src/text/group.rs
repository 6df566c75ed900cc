//! Groups.

use super::error::{Fail, Parsed};
use super::scan::{Pair, Pairs};
use super::{Syntax, TextError, action, fields, number, value};
use crate::wire::group::{ALL_BUCKETS, ALL_GROUPS, MAX_GROUP};
use crate::wire::multipart::GroupDesc;
use crate::wire::{
    Bucket, Entry, GroupCommand, GroupMod, GroupType, Match, PortNumber, Selection, Version,
};

const TYPES: [(&str, GroupType); 5] = [
    ("all", GroupType::All),
    ("select", GroupType::Select),
    ("indirect", GroupType::Indirect),
    ("ff", GroupType::FastFailover),
    ("fast_failover", GroupType::FastFailover),
];

const KEYS: [&str; 7] = [
    "group_id",
    "type",
    "command_bucket_id",
    "selection_method",
    "selection_method_param",
    "fields",
    "bucket",
];

const COMMANDS: [(&str, GroupCommand); 6] = [
    ("add", GroupCommand::Add),
    ("modify", GroupCommand::Modify),
    ("delete", GroupCommand::Delete),
    ("add_or_mod", GroupCommand::AddOrModify),
    ("insert_bucket", GroupCommand::InsertBucket),
    ("remove_bucket", GroupCommand::RemoveBucket),
];

/// The first and the last bucket, where buckets are added or taken away.
const PLACES: [(&str, u32); 3] =
    [("first", 0xffff_fffd), ("last", 0xffff_fffe), ("all", ALL_BUCKETS)];

impl Syntax<'_> {
    /// A change of a group: `group_id=1,type=select,bucket=weight:2,output:1,bucket=output:2`.
    ///
    /// An empty text is all groups, to delete them.
    pub fn group(&self, text: &str, command: GroupCommand) -> Result<GroupMod, TextError> {
        self.parse_group(text, command).map_err(|fail| fail.within(text))
    }

    /// Parses a change of a group that may begin with its command: `add`, `modify`, `add_or_mod`,
    /// `delete`, `insert_bucket` or `remove_bucket`.
    pub fn group_line(&self, text: &str, otherwise: GroupCommand) -> Result<GroupMod, TextError> {
        let start = text.trim_start();
        let end = start.find([',', ' ', '\t']).unwrap_or(start.len());
        let command = COMMANDS.iter().find(|(word, _)| *word == &start[..end]);
        let parsed = match command {
            Some(&(_, command)) => self.parse_group(&start[end..], command),
            None => self.parse_group(text, otherwise),
        };
        parsed.map_err(|fail| fail.within(text))
    }

    fn parse_group<'t>(&self, text: &'t str, command: GroupCommand) -> Parsed<'t, GroupMod> {
        let (mut group, mut kind, mut at) = (None, None, None);
        let (mut method, mut parameter, mut chosen) = (None, 0, Match::new());
        let mut buckets = None;
        let of_buckets = matches!(command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket);
        for pair in Pairs::new(text) {
            let pair = pair?;
            match pair.key {
                "group_id" => {
                    let text = pair.wanted()?;
                    group = Some(match text {
                        "all" if command == GroupCommand::Delete => ALL_GROUPS,
                        _ => {
                            number::number(text, "the number of a group", MAX_GROUP.into())? as u32
                        }
                    });
                }
                "type" => {
                    let text = pair.wanted()?;
                    let known = TYPES.iter().find(|(name, _)| *name == text);
                    let names = TYPES.iter().map(|&(name, _)| name);
                    let known = known.ok_or_else(|| Fail::unknown(text, "type of group", names))?;
                    kind = Some(known.1);
                }
                "command_bucket_id" if of_buckets => {
                    let text = pair.wanted()?;
                    let known = PLACES.iter().find(|(name, _)| *name == text);
                    at = Some(match known {
                        Some(&(_, place)) => place,
                        None => number::u32(text, "the number of a bucket")?,
                    });
                }
                "selection_method" => {
                    let text = pair.wanted()?;
                    if text.len() > 15 {
                        return Err(Fail::new(text, "the name of a method has at most 15 bytes"));
                    }
                    method = Some(text.to_owned());
                }
                "selection_method_param" => parameter = number::u64(pair.wanted()?, "a parameter")?,
                "fields" => chosen = self.chosen(&pair)?,
                "bucket" | "buckets" => {
                    // From here on there are buckets.
                    buckets = Some(pair.rest);
                    break;
                }
                key => return Err(Fail::unknown(key, "argument of a group", KEYS)),
            }
        }
        let missing = |what: &str| Fail::new(text, format!("{what} is missing"));
        let all = command == GroupCommand::Delete && text.trim().is_empty();
        let group = if all { Some(ALL_GROUPS) } else { group };
        let group = group.ok_or_else(|| missing("the number of the group").help("group_id=1"))?;
        let needs_type = !of_buckets && command != GroupCommand::Delete;
        if needs_type && kind.is_none() {
            return Err(missing("the type of the group").help("type=all, select, indirect or ff"));
        }
        let kind = kind.unwrap_or(GroupType::All);
        let newer = matches!(self.version(), Version::V10 | Version::V15);
        if method.is_none() && (parameter != 0 || !chosen.is_empty()) {
            return Err(missing("the method of selection").help("selection_method=hash"));
        }
        if (method.is_some() || of_buckets) && !newer {
            return Err(Fail::new(text, "only OpenFlow 1.5 has this").help("-O 1.5"));
        }
        if of_buckets && at.is_none() && command == GroupCommand::InsertBucket {
            return Err(missing("where buckets are added").help("command_bucket_id=last"));
        }
        let selection = method.map(|method| Selection { method, parameter, fields: chosen });
        let buckets = match buckets {
            Some(at) if matches!(command, GroupCommand::Delete | GroupCommand::RemoveBucket) => {
                return Err(Fail::new(at, "there are no buckets here"));
            }
            Some(text) => self.buckets(text, kind, command)?,
            None => Vec::new(),
        };
        if kind == GroupType::Indirect && needs_type && buckets.len() != 1 {
            return Err(Fail::new(text, "an indirect group has one bucket"));
        }
        let at = at.unwrap_or(ALL_BUCKETS);
        Ok(GroupMod { command, kind, group, at, buckets, selection })
    }

    /// The fields a method of selection takes.
    fn chosen<'t>(&self, pair: &Pair<'t>) -> Parsed<'t, Match> {
        let mut chosen = Match::new();
        for pair in Pairs::new(pair.wanted()?) {
            let pair = pair?;
            let known = fields::field(pair.key)?;
            let mask = if pair.value.is_empty() {
                known.field.all_bits()
            } else {
                value::parse_exact(known, pair.value, self.names())?
            };
            if mask == 0 {
                return Err(Fail::new(pair.whole, "a mask without bits takes nothing"));
            }
            if chosen.get(known.field).is_some() {
                return Err(Fail::new(pair.whole, format!("{} is there twice", pair.key)));
            }
            chosen = chosen.with_entry(Entry::exact(known.field, mask));
        }
        Ok(chosen)
    }

    /// Buckets, the first of which begins here.
    fn buckets<'t>(
        &self,
        text: &'t str,
        kind: GroupType,
        command: GroupCommand,
    ) -> Parsed<'t, Vec<Bucket>> {
        let mut buckets: Vec<(Bucket, bool)> = Vec::new();
        let mut rest = Some(text);
        while let Some(text) = rest {
            let next = next_bucket(text);
            let end = next.map_or(text.len(), |(start, _)| start);
            rest = next.map(|(_, behind)| &text[behind..]);
            let (bucket, numbered) = self.bucket(&text[..end], kind)?;
            let changes = command == GroupCommand::InsertBucket;
            if bucket.weight != 0 && kind != GroupType::Select && !changes {
                return Err(Fail::new(&text[..end], "only buckets of type=select have weights"));
            }
            buckets.push((bucket, numbered));
        }
        // Those without a number get the lowest free ones.
        let used: Vec<u32> =
            buckets.iter().filter(|(_, numbered)| *numbered).map(|(bucket, _)| bucket.id).collect();
        let mut free = (0..).filter(|id| !used.contains(id));
        for (bucket, numbered) in &mut buckets {
            if !*numbered {
                bucket.id = free.next().unwrap_or_default();
            }
        }
        Ok(buckets.into_iter().map(|(bucket, _)| bucket).collect())
    }

    fn bucket<'t>(&self, text: &'t str, kind: GroupType) -> Parsed<'t, (Bucket, bool)> {
        let mut bucket = Bucket::new(Vec::new());
        bucket.weight = u16::from(kind == GroupType::Select);
        let (mut numbered, mut actions) = (false, Vec::new());
        for pair in Pairs::new(text) {
            let pair = pair?;
            match pair.key {
                "weight" => bucket.weight = number::u16(pair.wanted()?, "a weight")?,
                "watch_port" => bucket.watch_port = self.names().port(pair.wanted()?)?,
                "watch_group" => {
                    let text = pair.wanted()?;
                    let any = text.eq_ignore_ascii_case("any");
                    let number = || number::number(text, "the number of a group", MAX_GROUP.into());
                    bucket.watch_group = if any { None } else { Some(number()? as u32) };
                }
                "bucket_id" => {
                    let text = pair.wanted()?;
                    let most = MAX_GROUP.into();
                    bucket.id = number::number(text, "the number of a bucket", most)? as u32;
                    numbered = true;
                    if !matches!(self.version(), Version::V10 | Version::V15) {
                        let fail =
                            Fail::new(pair.whole, "only OpenFlow 1.5 has numbers of buckets");
                        return Err(fail.help("-O 1.5"));
                    }
                }
                "actions" | "action" => actions.extend(Pairs::new(pair.value)),
                _ => actions.push(Ok(pair)),
            }
        }
        if actions.is_empty() {
            return Err(Fail::new(text, "a bucket has actions").help("bucket=output:1"));
        }
        let watches = bucket.watch_port != PortNumber::ANY || bucket.watch_group.is_some();
        match kind {
            GroupType::FastFailover if !watches => {
                let fail = Fail::new(text, "a bucket of type=ff watches a port or a group");
                return Err(fail.help("watch_port:1"));
            }
            GroupType::All | GroupType::Indirect if watches => {
                return Err(Fail::new(
                    text,
                    "only buckets of type=ff and type=select watch something",
                ));
            }
            _ => {}
        }
        let mut scope = action::Scope::new(*self, &Match::new());
        bucket.actions = action::parse_pairs(actions.into_iter(), &mut scope)?;
        Ok((bucket, numbered))
    }

    /// A group as a text, in the form of `ovs-ofctl dump-groups`.
    #[must_use]
    pub fn print_group(&self, group: &GroupDesc) -> String {
        let kind = TYPES.iter().find(|&&(_, kind)| kind == group.kind);
        let mut text =
            format!("group_id={},type={}", group.group, kind.map_or("", |(name, _)| name));
        text += &self.print_selection(group.selection.as_ref());
        text + &self.print_buckets(&group.buckets, group.kind)
    }

    /// Prints a change of a group, without the word for its command.
    #[must_use]
    pub fn print_group_mod(&self, change: &GroupMod) -> String {
        if change.command == GroupCommand::Delete {
            let group = change.group;
            return if group == ALL_GROUPS {
                "group_id=all".into()
            } else {
                format!("group_id={group}")
            };
        }
        let mut text = format!("group_id={}", change.group);
        if matches!(change.command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket) {
            let place = PLACES.iter().find(|&&(_, place)| place == change.at);
            let place = place.map_or_else(|| change.at.to_string(), |(name, _)| (*name).to_owned());
            text += &format!(",command_bucket_id={place}");
        } else {
            let kind = TYPES.iter().find(|&&(_, kind)| kind == change.kind);
            text += &format!(",type={}", kind.map_or("", |(name, _)| name));
        }
        text += &self.print_selection(change.selection.as_ref());
        text + &self.print_buckets(&change.buckets, change.kind)
    }

    fn print_selection(&self, selection: Option<&Selection>) -> String {
        let Some(selection) = selection else { return String::new() };
        let mut text = format!(",selection_method={}", selection.method);
        if selection.parameter != 0 {
            text += &format!(",selection_method_param={}", selection.parameter);
        }
        let fields: Vec<_> = selection
            .fields
            .entries()
            .map(|entry| {
                let known = fields::for_field(entry.field());
                let all = entry.field().all_bits();
                if entry.value() == all {
                    return known.name().to_owned();
                }
                format!(
                    "{}={}",
                    known.name(),
                    value::print(known, entry.value(), all, self.names())
                )
            })
            .collect();
        if !fields.is_empty() {
            text += &format!(",fields({})", fields.join(","));
        }
        text
    }

    fn print_buckets(&self, buckets: &[Bucket], kind: GroupType) -> String {
        let newer = matches!(self.version(), Version::V10 | Version::V15);
        let bucket = |bucket: &Bucket| {
            let mut text = String::from(",bucket=");
            if newer {
                text += &format!("bucket_id:{},", bucket.id);
            }
            if bucket.weight != u16::from(kind == GroupType::Select) {
                text += &format!("weight:{},", bucket.weight);
            }
            if bucket.watch_port != PortNumber::ANY {
                text += &format!("watch_port:{},", self.names().print_port(bucket.watch_port));
            }
            if let Some(group) = bucket.watch_group {
                text += &format!("watch_group:{group},");
            }
            text + "actions=" + &self.print_actions(&bucket.actions)
        };
        buckets.iter().map(bucket).collect()
    }
}

/// Returns the begin of the next bucket, and that of its content.
fn next_bucket(text: &str) -> Option<(usize, usize)> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' | ' ' | '\t' if depth == 0 => {
                let behind = &text[at + 1..];
                if let Some(inside) = behind.strip_prefix("bucket=") {
                    return Some((at, text.len() - inside.len()));
                }
            }
            _ => {}
        }
    }
    None
}
