//! `LookupIPRouteMP`: routes that cannot be changed, by an older name.

use linerate_graph::{Arg, Class, ElementBuilder, Scope};

use super::{
    class::{BASE, LINEAR_STYLE},
    element::{IpLookup, NoRoute, Style},
    route,
    table::Table,
};

const STYLE: Style = Style { no_route: NoRoute::Each, ..LINEAR_STYLE };

pub(super) const CLASS: Class = Class {
    name: "LookupIPRouteMP",
    summary: "routes IPv4 packets by routes that cannot be changed, on several workers",
    description: "Does what StaticIPLookup does, on several workers as well. Of routes for the same \
        prefix the last counts. Packets no route is for are dropped, with a message each.",
    args: &[Arg::rest(
        "ROUTE",
        "DADDR/MASK [GATEWAY] OUTPUT",
        "where packets to these addresses go",
    )],
    example: "InfiniteSource(DATA \\<0a000001>, LIMIT 10, STOP true) -> GetIPAddress(0)\n  \
        -> r :: LookupIPRouteMP(10.0.0.0/8 0, 0/0 10.0.0.1 1) -> Discard; r [1] -> Discard;",
    make: |make| IpLookup::configured(make, STYLE, configure),
    file: file!(),
    ..BASE
};

fn configure(make: &mut ElementBuilder<'_>, table: &Table<u32>) {
    let mut routes = Vec::new();
    let mut wrong = false;
    for (at, text) in (1..).zip(make.rest()) {
        let scope = Scope { plan: make.plan(), names: &make.world.names, name: make.name() };
        match route::parse(&text, &scope, false).filter(|route| route.outputs().1 >= 0) {
            Some(route) => routes.push(route),
            None => {
                wrong = true;
                make.error(format!("argument {at} should be `DADDR/MASK [GATEWAY] OUTPUT'"));
            }
        }
    }
    if wrong {
        return;
    }
    match routes.iter().map(|route| route.outputs().0).max() {
        None => make.warn("no routes"),
        Some(last) if last >= make.outputs() as i32 => {
            make.error(format!("need {} or more output ports", last + 1));
        }
        Some(_) => {}
    }
    if table.load(&routes, true).is_err() {
        make.error("no memory to store the routes");
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// As Click answers, of several for one prefix too.
    #[test]
    fn packets_go_where_the_last_route_leads() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "Packets(0a000001 0a010001 0b000001 0a000002 0c000001 01020304) -> GetIPAddress(0)
                    -> r :: LookupIPRouteMP(10.0.0.0/8 0, 10.1.0.0/16 9.9.9.9 1, 11.0.0.0/8 0,
                        11.0.0.0/8 1, 0.0.0.1/0.0.0.255 2)
                    -> StoreIPAddress(0) -> a :: Collect;
                 r [1] -> StoreIPAddress(0) -> b :: Collect;
                 r [2] -> StoreIPAddress(0) -> c :: Collect;",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("a.packets"), "0a000001\n0a000002");
            assert_eq!(run.read("b.packets"), "09090909\n0b000001");
            assert_eq!(run.read("c.packets"), "0c000001");
            assert_eq!(run.output(), "LookupIPRouteMP: no gw for 4030201\n");
            assert!(run.read("r.drops").starts_with("1\tno route"));
        }
    }
}
