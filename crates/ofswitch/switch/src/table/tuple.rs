//! Flows of a table that have the same mask.
//!
//! They are found by the hash of the words the mask has, in stages: metadata of a packet, its
//! Ethernet, its network header, its transport header. Where no flow has the packet's words of a
//! stage, those of the later ones are not looked at. (Open vSwitch's staged lookup, NSDI 2015,
//! section 5.3; there a stage is an index of hashes beside the flows, here a trie that leads to the
//! next one, so words are compared and not their hash.) Words that one match alone has lead to its
//! flows at once, and the words of later stages are compared with its own: most flows have no stage
//! of theirs.

use std::sync::Arc;

use super::Flow;
use super::prefixes::{self, PARTS, PrefixLengths, Prefixes};
use super::trie::{Iter, Ranked, Trie, mix};
use crate::key::{ENTRY_WORDS, Key, Mask, WORDS};

/// The stage a word is in.
const fn stage_of(word: usize) -> usize {
    match word {
        1 | 2 | 15 => 1,
        3 | 4 | 6..=10 => 2,
        5 | 11..=14 => 3,
        _ => 0,
    }
}

const _: () = assert!(ENTRY_WORDS == 33 && WORDS == 43, "words have moved: see stage_of");

/// Words a stage compares, each with its mask, and the prefixes that may exclude it.
#[derive(Debug)]
struct StageLayout {
    words: Vec<(usize, u64)>,
    prefixes: Vec<(usize, u8)>,
}

impl StageLayout {
    fn hash(&self, key: &Key) -> u64 {
        self.words.iter().fold(0, |hash, &(word, mask)| mix(hash, key.words()[word] & mask))
    }

    /// Returns true if a key has the words of a flow.
    fn have(&self, flow: &Flow, key: &Key) -> bool {
        let same = |&(word, mask): &(usize, u64)| {
            (flow.pattern.word(word) ^ key.words()[word]) & mask == 0
        };
        self.words.iter().all(same)
    }

    /// Returns true if a mask has all bits this stage compares.
    fn is_within(&self, mask: &Mask) -> bool {
        self.words.iter().all(|&(word, bits)| bits & !mask.words()[word] == 0)
    }

    /// The part of which no flow has the prefix, and from how many bits that is known.
    fn excluded(
        &self,
        mut found: impl FnMut(usize) -> Option<PrefixLengths>,
    ) -> Option<(usize, u8)> {
        let mut prefixes = self.prefixes.iter();
        prefixes.find_map(|&(part, length)| Some((part, found(part)?.excludes(length)?)))
    }

    fn unmask(&self, mask: &mut Mask) {
        let words = mask.words_mut();
        self.words.iter().for_each(|&(word, bits)| words[word] |= bits);
    }
}

/// Mask and stages shared by the flows of a tuple.
#[derive(Debug)]
pub(super) struct TupleLayout {
    mask: Mask,
    /// Stages that have words; one without any where the mask has none.
    stages: Vec<StageLayout>,
}

impl TupleLayout {
    fn new(mask: &Mask) -> TupleLayout {
        let stage = |nth: usize| {
            let of = |word: &usize| stage_of(*word) == nth;
            let all = mask.words().iter().copied().enumerate();
            let words: Vec<_> = all.filter(|(word, bits)| of(word) && *bits != 0).collect();
            let parts = (0..PARTS).filter(|&part| of(&prefixes::word(part)));
            let prefixes =
                parts.filter_map(|part| Some((part, prefixes::length(part, mask)?))).collect();
            StageLayout { words, prefixes }
        };
        let mut stages: Vec<StageLayout> =
            (0..4).map(stage).filter(|stage| !stage.words.is_empty()).collect();
        if stages.is_empty() {
            stages.push(StageLayout { words: Vec::new(), prefixes: Vec::new() });
        }
        TupleLayout { mask: *mask, stages }
    }
}

/// The hash a mask is found by.
pub(super) fn hash_of(mask: &Mask) -> u64 {
    mask.words().iter().fold(0, |hash, word| mix(hash, *word))
}

/// An entry of a trie: flows with one match, where no other has the words so far, or the next
/// stage.
#[derive(Debug, Clone)]
enum Item {
    One(Arc<Flow>),
    /// By descending priority; more than one.
    Several(Arc<Vec<Arc<Flow>>>),
    Stage(Arc<Stage>),
}

#[derive(Debug, Clone)]
struct Stage {
    words: Box<[u64]>,
    below: Trie<Item>,
}

impl Ranked for Item {
    fn rank(&self) -> u16 {
        match self {
            Item::Stage(stage) => stage.below.rank(),
            flows => flows.flows()[0].priority,
        }
    }
}

impl Item {
    fn flows(&self) -> &[Arc<Flow>] {
        match self {
            Item::One(flow) => std::slice::from_ref(flow),
            Item::Several(flows) => flows,
            Item::Stage(_) => &[],
        }
    }

    /// Returns true if it is of flows that have the key's words of a stage.
    fn has(&self, key: &Key, layout: &StageLayout) -> bool {
        match self {
            Item::Stage(stage) => {
                let mut words = layout.words.iter().zip(&stage.words);
                words.all(|(&(word, mask), has)| key.words()[word] & mask == *has)
            }
            flows => layout.have(&flows.flows()[0], key),
        }
    }

    /// Likewise, as far as another mask has the words.
    fn agrees(&self, key: &Key, mask: &Mask, layout: &StageLayout) -> bool {
        let same = |(word, bits): (usize, u64), has: u64| {
            (key.words()[word] ^ has) & bits & mask.words()[word] == 0
        };
        match self {
            Item::Stage(stage) => {
                layout.words.iter().zip(&stage.words).all(|(of, has)| same(*of, *has))
            }
            flows => {
                let has = &flows.flows()[0].pattern;
                layout.words.iter().all(|&(word, bits)| same((word, bits), has.word(word)))
            }
        }
    }

    /// Puts a stage in the place of flows, which come behind it, as others with their words so far
    /// come up.
    fn move_below(&mut self, layout: &StageLayout, later: &[StageLayout]) {
        let (Some(next), Some(flow)) = (later.first(), self.flows().first()) else { return };
        let words =
            layout.words.iter().map(|&(word, mask)| flow.pattern.word(word) & mask).collect();
        let hash = next.hash(&flow.pattern.key());
        let mut below = Trie::default();
        below.insert(hash, self.clone());
        *self = Item::Stage(Arc::new(Stage { words, below }));
    }

    fn flow_position(flows: &[Arc<Flow>], priority: u16) -> Result<usize, usize> {
        flows.binary_search_by(|flow| priority.cmp(&flow.priority))
    }

    /// Adds a flow to those of its match, and returns the one it takes the place of.
    fn add(&mut self, flow: Arc<Flow>) -> Option<Arc<Flow>> {
        match self {
            Item::One(one) if one.priority == flow.priority => Some(std::mem::replace(one, flow)),
            Item::One(one) => {
                let mut flows = vec![Arc::clone(one), flow];
                flows.sort_by_key(|flow| std::cmp::Reverse(flow.priority));
                *self = Item::Several(Arc::new(flows));
                None
            }
            Item::Several(flows) => {
                let flows = Arc::make_mut(flows);
                match Item::flow_position(flows, flow.priority) {
                    Ok(at) => Some(std::mem::replace(&mut flows[at], flow)),
                    Err(at) => {
                        flows.insert(at, flow);
                        None
                    }
                }
            }
            Item::Stage(_) => None,
        }
    }

    /// Takes one of several away, or the only one: then nothing stays.
    fn take(&mut self, priority: u16) -> (Option<Arc<Flow>>, bool) {
        match self {
            Item::One(one) if one.priority == priority => (Some(Arc::clone(one)), false),
            Item::Several(flows) => {
                let Ok(at) = Item::flow_position(flows, priority) else { return (None, true) };
                let flow = Arc::make_mut(flows).remove(at);
                if let [only] = flows.as_slice() {
                    *self = Item::One(Arc::clone(only));
                }
                (Some(flow), true)
            }
            _ => (None, true),
        }
    }
}

/// Flows with the same mask.
#[derive(Debug, Clone)]
pub(super) struct Tuple {
    /// The greatest priority.
    pub(super) rank: u16,
    /// The hash of the mask.
    pub(super) hash: u64,
    layout: Arc<TupleLayout>,
    flows: Trie<Item>,
}

/// Prefixes found during a lookup, by part of the key.
pub(super) type PrefixResults = [Option<PrefixLengths>; PARTS];

impl Tuple {
    pub(super) fn new(mask: &Mask) -> Tuple {
        let layout = Arc::new(TupleLayout::new(mask));
        Tuple { rank: 0, hash: hash_of(mask), layout, flows: Trie::default() }
    }

    pub(super) fn mask(&self) -> &Mask {
        &self.layout.mask
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.len() == 0
    }

    /// The flows a key matches, by descending priority. Adds the bits that were looked at.
    pub(super) fn lookup(
        &self,
        key: &Key,
        mask: &mut Mask,
        prefixes: &Prefixes,
        results: &mut PrefixResults,
    ) -> &[Arc<Flow>] {
        let mut flows = &self.flows;
        let mut only = None;
        for layout in &self.layout.stages {
            // Prefixes found for an earlier tuple cost nothing.
            let known = |part: usize| results[part];
            if let Some((part, bits)) = layout.excluded(known) {
                prefixes::unmask(part, bits, mask);
                return &[];
            }
            let item = next(flows, only, key, layout);
            if item.is_none() {
                // The absence of a flow may be known from fewer bits.
                let mut find =
                    |part: usize| *results[part].get_or_insert_with(|| prefixes.find(part, key));
                if let Some((part, bits)) = layout.excluded(|part| Some(find(part))) {
                    prefixes::unmask(part, bits, mask);
                    return &[];
                }
            }
            layout.unmask(mask);
            match item {
                Some(Item::Stage(stage)) => flows = &stage.below,
                Some(item) => only = Some(item),
                None => return &[],
            }
        }
        only.map_or(&[], Item::flows)
    }

    /// The flows with the very words of a key.
    pub(super) fn find(&self, key: &Key) -> &[Arc<Flow>] {
        let mut flows = &self.flows;
        let mut only = None;
        for layout in &self.layout.stages {
            match next(flows, only, key, layout) {
                Some(Item::Stage(stage)) => flows = &stage.below,
                Some(item) => only = Some(item),
                None => return &[],
            }
        }
        only.map_or(&[], Item::flows)
    }

    /// Adds a flow, and returns the one it takes the place of.
    pub(super) fn insert(&mut self, flow: Arc<Flow>, prefixes: &mut Prefixes) -> Option<Arc<Flow>> {
        let key = flow.pattern.key();
        let replaced = insert(&mut self.flows, &self.layout.stages, &key, flow);
        self.rank = self.flows.rank();
        if replaced.is_none() {
            self.each_prefix(|part, length| prefixes.insert(part, &key, length));
        }
        replaced
    }

    /// Takes a flow away.
    pub(super) fn remove(
        &mut self,
        key: &Key,
        priority: u16,
        prefixes: &mut Prefixes,
    ) -> Option<Arc<Flow>> {
        if !self.find(key).iter().any(|flow| flow.priority == priority) {
            return None;
        }
        let (removed, _) = remove(&mut self.flows, &self.layout.stages, key, priority);
        self.rank = self.flows.rank();
        if removed.is_some() {
            self.each_prefix(|part, length| prefixes.remove(part, key, length));
        }
        removed
    }

    fn each_prefix(&self, mut each: impl FnMut(usize, u8)) {
        let all = self.layout.stages.iter().flat_map(|stage| &stage.prefixes);
        all.for_each(|&(part, length)| each(part, length));
    }

    /// Flows that have the key's bits as far as both masks have them. Where `mask` has all of a
    /// stage, only the one entry is looked at.
    pub(super) fn each_agreeing<'a>(
        &'a self,
        key: &Key,
        mask: &Mask,
        each: &mut dyn FnMut(&'a Arc<Flow>),
    ) {
        agreeing(&self.flows, &self.layout.stages, key, mask, each);
    }

    /// Returns all flows, in no order.
    pub(super) fn iter(&self) -> Flows<'_> {
        Flows { stack: vec![self.flows.iter()], flows: [].iter() }
    }
}

/// Looks an entry up at a stage: among `flows`, or `only` where there is one alone.
#[inline]
fn next<'a>(
    flows: &'a Trie<Item>,
    only: Option<&'a Item>,
    key: &Key,
    layout: &StageLayout,
) -> Option<&'a Item> {
    match only {
        Some(item) => item.has(key, layout).then_some(item),
        None => flows.get(layout.hash(key), |item| item.has(key, layout)),
    }
}

fn insert(
    flows: &mut Trie<Item>,
    stages: &[StageLayout],
    key: &Key,
    flow: Arc<Flow>,
) -> Option<Arc<Flow>> {
    let (layout, later) = stages.split_first()?;
    let hash = layout.hash(key);
    let is = |item: &Item| item.has(key, layout);
    if flows.get(hash, is).is_none() {
        flows.insert(hash, Item::One(flow));
        return None;
    }
    let mut replaced = None;
    flows.modify(hash, is, |item| {
        if !matches!(item, Item::Stage(_)) && !later.iter().all(|layout| item.has(key, layout)) {
            item.move_below(layout, later);
        }
        replaced = match item {
            Item::Stage(stage) => insert(&mut Arc::make_mut(stage).below, later, key, flow),
            item => item.add(flow),
        };
        true
    });
    replaced
}

/// Removes a flow that is there, and returns true if other flows stay.
fn remove(
    flows: &mut Trie<Item>,
    stages: &[StageLayout],
    key: &Key,
    priority: u16,
) -> (Option<Arc<Flow>>, bool) {
    let Some((layout, later)) = stages.split_first() else { return (None, true) };
    let mut removed = None;
    flows.modify(
        layout.hash(key),
        |item| item.has(key, layout),
        |item| {
            let (flow, stays) = match item {
                Item::Stage(stage) => remove(&mut Arc::make_mut(stage).below, later, key, priority),
                item => item.take(priority),
            };
            removed = flow;
            stays
        },
    );
    (removed, flows.len() != 0)
}

fn agreeing<'a>(
    flows: &'a Trie<Item>,
    stages: &[StageLayout],
    key: &Key,
    mask: &Mask,
    each: &mut dyn FnMut(&'a Arc<Flow>),
) {
    let Some((layout, later)) = stages.split_first() else { return };
    let mut visit = |item: &'a Item| match item {
        Item::Stage(stage) => agreeing(&stage.below, later, key, mask, each),
        item if later.iter().all(|layout| item.agrees(key, mask, layout)) => {
            item.flows().iter().for_each(&mut *each);
        }
        _ => {}
    };
    if layout.is_within(mask) {
        if let Some(item) = flows.get(layout.hash(key), |item| item.has(key, layout)) {
            visit(item);
        }
        return;
    }
    flows.iter().filter(|item| item.agrees(key, mask, layout)).for_each(visit);
}

/// All flows of a tuple.
#[derive(Debug)]
pub(super) struct Flows<'a> {
    stack: Vec<Iter<'a, Item>>,
    flows: std::slice::Iter<'a, Arc<Flow>>,
}

impl<'a> Iterator for Flows<'a> {
    type Item = &'a Arc<Flow>;

    fn next(&mut self) -> Option<&'a Arc<Flow>> {
        loop {
            if let Some(flow) = self.flows.next() {
                return Some(flow);
            }
            match self.stack.last_mut()?.next() {
                Some(Item::Stage(stage)) => self.stack.push(stage.below.iter()),
                Some(item) => self.flows = item.flows().iter(),
                None => {
                    self.stack.pop();
                }
            }
        }
    }
}
