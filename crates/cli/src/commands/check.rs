//! `linerate check`: the errors of a configuration, or the graph it makes.

use std::io::{self, Write};

use anyhow::Result;
use linerate_graph::{Library, Options, Router};
use linerate_memory::ArenaOptions;

use crate::{
    args::Check,
    configuration::{self, Parsed},
    exit::{ConfigurationError, cannot_read},
    graph::Graph,
};

/// Packet memory of elements that are made and not run.
const ARENA: usize = 2 << 20;

pub(crate) fn run(args: &Check, library: &Library) -> Result<()> {
    let (source, globals) = args.configuration.source()?;
    let text = source.read().map_err(|error| cannot_read(source.name(), error))?;
    let path = configuration::click_path();
    let parsed = Parsed::new(source.name(), &text, &globals, library, &path);
    parsed.check_variables(&globals)?;
    let (plan, sources) = parsed.into_plan(library)?;
    let graph = if args.dry {
        Graph::new(&plan, |_| Vec::new())
    } else {
        // The output files of the configuration may be those of a running one.
        linerate_linux::files::only_check_outputs();
        let options = ArenaOptions { size: ARENA, gradual: true, ..ArenaOptions::default() };
        let ports = linerate_port::Context {
            // Nothing is received: they are open for a moment.
            disconnect: true,
            devices: args.configuration.devices(),
            ..linerate_port::Context::new(options.create()?)
        };
        let options = Options { workers: args.workers.into(), ..Options::default() };
        let mut router = Router::new(plan, library, ports, &options)
            .map_err(|error| ConfigurationError::from_build_error(error, &sources))?;
        let graph = Graph::new(router.plan(), |element| router.workers_of(element));
        router.close();
        graph
    };
    let mut out = io::stdout().lock();
    let text = if args.json { graph.as_json() } else { graph.show(args.format) };
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
