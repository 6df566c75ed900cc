//! Arguments of sharing elements, parsed.

use linerate_cluster::{Access, Granted};
use linerate_graph::{ElementBuilder, Text, Word, unquoted};
use linerate_memory::Frame;

use super::{Application, Program, Sharing, key::Key, selector::PacketSelector};
use crate::{
    access,
    place::{BrokerState, Expected},
    weights,
};

/// Programs of an element at most: a bit for each in a packet's recipients.
const PROGRAMS_LIMIT: usize = 64;

impl Sharing {
    fn new(
        make: &mut ElementBuilder<'_>,
        mut applications: Vec<Application>,
        key: Option<Key>,
        isolated: &str,
    ) -> Sharing {
        let isolated: Vec<&str> = isolated.split_whitespace().collect();
        let all = || applications.iter().flat_map(|with| &with.programs);
        if all().count() > PROGRAMS_LIMIT {
            make.error(format!("more than {PROGRAMS_LIMIT} programs"));
        }
        let known = |name: &str| all().any(|program| program.name == name);
        for name in isolated.iter().filter(|name| !known(name)) {
            make.error(format!("ISOLATED: `{name}` is not among its programs"));
        }
        for program in applications.iter_mut().flat_map(|with| &mut with.programs) {
            if isolated.contains(&program.name.as_str()) {
                program.granted.access = Access::Isolated;
            }
        }
        let all = applications.iter().flat_map(|with| &with.programs);
        let granted =
            all.clone().map(|program| (program.name.clone(), program.granted.access)).collect();
        let has_selectors = applications.iter().any(|with| !with.selector.is_all())
            || all.clone().any(|program| !program.selector.is_all());
        make.world.common::<BrokerState>().grant(make.name(), granted);
        let (limit, pulls) = (make.world.frame_limit, make.input_is_pull(0));
        Sharing {
            applications,
            has_selectors,
            wanted: Vec::new(),
            key,
            waits: make.or("WAIT", false) || pulls,
            pulls,
            burst: None,
            expected: Some(Expected::new(make)),
            broker: None,
            balancers: Vec::new(),
            ids: Vec::new(),
            hashes: Vec::new(),
            held: Frame::new(limit),
            stand_in: Some(Frame::new(1)),
            absent: Frame::new(limit),
            unwanted: Frame::new(if has_selectors { limit } else { 1 }),
            packets: 0,
        }
    }

    pub(super) fn to_consumer(make: &mut ElementBuilder<'_>) -> Sharing {
        let Word(name) = make.need("NAME");
        let granted = granted(make);
        let programs =
            vec![Program { name, weight: 1, granted, selector: PacketSelector::default() }];
        let application = Application {
            name: make.name().into(),
            programs,
            selector: PacketSelector::of_all(make),
        };
        let burst = make.turn("BURST");
        Sharing { burst, ..Sharing::new(make, vec![application], None, "") }
    }

    pub(super) fn balancer(make: &mut ElementBuilder<'_>) -> Sharing {
        let texts = texts(make);
        let given = make
            .get::<Text>("WEIGHTS")
            .map(|Text(text)| weights::parse(&unquoted(&text), texts.len()));
        let weights = given.unwrap_or_else(|| Ok(vec![1; texts.len()])).unwrap_or_else(|error| {
            make.error(format!("WEIGHTS: {error}"));
            vec![1; texts.len()]
        });
        let granted = granted(make);
        let program = |(text, weight): (&String, u32)| {
            let (names, selector) = PacketSelector::with_names(make, text);
            // An invalid name is reported by the dispatcher, where the consumer is declared.
            Program { name: names.join(" "), weight, granted, selector }
        };
        let programs = texts.iter().zip(weights).map(program).collect();
        let application = Application {
            name: make.name().into(),
            programs,
            selector: PacketSelector::of_all(make),
        };
        let (key, isolated) = (Key::read(make), isolated(make));
        Sharing::new(make, vec![application], key, &isolated)
    }

    pub(super) fn fan_out(make: &mut ElementBuilder<'_>) -> Sharing {
        let granted = Granted { access: Access::Read, cells: access::cells(make) };
        let texts = texts(make);
        let application = |(number, text): (usize, &String)| {
            let (names, selector) = PacketSelector::with_names(make, text);
            if names.is_empty() {
                make.error(format!("`{text}`: an application has the name of a program at least"));
            }
            let program =
                |name| Program { name, weight: 1, granted, selector: PacketSelector::default() };
            let programs = names.into_iter().map(program).collect();
            Application { name: format!("{}.{number}", make.name()), programs, selector }
        };
        let applications = texts.iter().enumerate().map(application).collect();
        let (key, isolated) = (Key::read(make), isolated(make));
        Sharing::new(make, applications, key, &isolated)
    }
}

/// Returns the arguments without a keyword: programs.
fn texts(make: &mut ElementBuilder<'_>) -> Vec<String> {
    let texts: Vec<String> = make.rest().iter().map(|text| unquoted(text)).collect();
    if texts.is_empty() {
        make.error("it needs the name of a program at least");
    }
    texts
}

/// Returns the access and memory granted to programs.
fn granted(make: &mut ElementBuilder<'_>) -> Granted {
    Granted { access: access::parse(make, Access::Read), cells: access::cells(make) }
}

/// Programs that get copies, separated by spaces.
fn isolated(make: &mut ElementBuilder<'_>) -> String {
    make.get::<Text>("ISOLATED").map(|Text(text)| unquoted(&text)).unwrap_or_default()
}
