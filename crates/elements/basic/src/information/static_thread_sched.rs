//! `StaticThreadSched`: workers of elements.

use linerate_graph::{Arg, Class, ElementBuilder, ElementStatements, lang::config::words};

use super::{INFORMATION, prefix, resolve};

pub(super) const CLASS: Class = Class {
    name: "StaticThreadSched",
    summary: "says which worker runs an element",
    description: "Each argument is an element, or a compound, and the number of a worker, from 0. \
        With an element that starts something (a source, or what pulls from a queue) goes all it \
        pushes to and pulls from: a worker's part of the graph ends where a queue begins. What is \
        said later holds; -1 takes back what was said.",
    args: &[Arg::rest("ELEMENT WORKER", "element and number", "an element and its worker")],
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> u :: Unqueue -> Discard;\n\
        StaticThreadSched(u 0);",
    prepare: Some(say),
    file: file!(),
    ..INFORMATION
};

fn say(make: &mut ElementBuilder<'_>, said: &mut ElementStatements) {
    for argument in make.rest() {
        if let Err(errors) = say_one(make, &words(&argument), said) {
            errors.into_iter().for_each(|error| make.error(error));
            return;
        }
    }
}

/// One argument's words: an element and a worker.
fn say_one(
    make: &mut ElementBuilder<'_>,
    parts: &[&str],
    said: &mut ElementStatements,
) -> Result<(), Vec<String>> {
    let mut errors = Vec::new();
    let name = parts.first().map(|name| make.parse::<String>(name));
    let worker = parts.get(1).map(|worker| make.parse::<i32>(worker));
    match &name {
        None => errors.push("ELEMENT: required argument missing".to_owned()),
        Some(Err(error)) => errors.push(format!("ELEMENT: {error}")),
        Some(Ok(_)) => {}
    }
    match &worker {
        None => errors.push("THREAD: required argument missing".into()),
        Some(Err(error)) => errors.push(format!("THREAD: {error}")),
        Some(Ok(_)) => {}
    }
    if parts.len() > 2 {
        errors.push("too many arguments".into());
    }
    let (Some(Ok(name)), Some(Ok(worker)), true) = (name, worker, errors.is_empty()) else {
        return Err(errors);
    };
    let workers = make.world.threads;
    let worker = match usize::try_from(worker) {
        Ok(worker) if worker < workers => Some(worker),
        _ if worker == -1 => None,
        _ => {
            make.warn(format!("thread preference {worker} out of range"));
            (worker >= 0).then_some(0)
        }
    };
    let elements = match resolve(make, &name) {
        Some(element) => vec![element],
        None => {
            let inside = format!("{}{name}/", prefix(make));
            let elements = make.plan().elements.iter().enumerate();
            let named = elements.filter(|(_, element)| element.name.starts_with(&inside));
            let named: Vec<_> = named.map(|(at, _)| at).collect();
            if named.is_empty() {
                make.error(format!("'{inside}' does not name an element"));
            }
            named
        }
    };
    for element in elements {
        said.workers.retain(|(known, _)| *known != element);
        said.workers.extend(worker.map(|worker| (element, worker)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn impossible_threads_are_refused() {
        assert_eq!(
            Run::errors(
                "StaticThreadSched(x 0); StaticThreadSched(y 4, i 1 2, i 7); i::Idle;\n\
                 StaticThreadSched(i, i -1)"
            ),
            "config:1: While configuring 'StaticThreadSched@1 :: StaticThreadSched':\n  \
             'x/' does not name an element\n\
             config:1: While configuring 'StaticThreadSched@2 :: StaticThreadSched':\n  \
             warning: thread preference 4 out of range\n  \
             'y/' does not name an element\n  \
             too many arguments\n\
             config:2: While configuring 'StaticThreadSched@4 :: StaticThreadSched':\n  \
             THREAD: required argument missing\n"
        );
    }

    #[test]
    fn a_worker_that_is_not_there_is_only_a_warning() {
        let mut run = Run::new(
            "s :: StaticThreadSched(i 7, i -5); i :: InfiniteSource(LIMIT 1, STOP true) -> Discard",
        );
        run.run();
        assert_eq!(
            run.output(),
            "config:1: While configuring 's :: StaticThreadSched':\n  \
             warning: thread preference 7 out of range\n  \
             warning: thread preference -5 out of range\n"
        );
    }

    #[test]
    fn a_pipeline_of_two_workers_loses_nothing() {
        let mut run = Run::new(
            "s :: InfiniteSource(LIMIT 20000) -> q :: Queue(1000)\n\
             -> u :: Unqueue -> c :: Counter(COUNT_CALL 20000 stop) -> Discard;\n\
             StaticThreadSched(s 0, u 1);",
        )
        .workers(2);
        run.run();
        assert_eq!(run.read("c.count"), "20000");
        assert_eq!(run.read("q.drops"), "0");
    }

    #[test]
    fn a_compound_is_all_that_is_in_it() {
        let mut run = Run::new(
            "s :: InfiniteSource(LIMIT 1000) -> q :: Queue(1000)\n\
             -> p :: { input -> u :: Unqueue -> Null -> output }\n\
             -> c :: Counter(COUNT_CALL 1000 stop) -> Discard;\n\
             StaticThreadSched(p 1);",
        )
        .workers(2);
        run.run();
        assert_eq!(run.read("c.count"), "1000");
    }
}
