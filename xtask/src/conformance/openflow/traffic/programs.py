#!/usr/bin/python3
"""Open vSwitch's programs in a case of its suite, where the switch is `linerate switch`.

It goes by the name it is called by. Its database and `ovs-vsctl` are Open vSwitch's own: what they say is
compared with the switches that run, one for each bridge, and what differs is changed. `ovs-ofctl` is Open
vSwitch's own, too, with the names of ports that ours cannot have replaced. `ovs-appctl` asks handlers.
"""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

LINERATE = os.environ["LINERATE"]
FOLDER = os.path.join(os.environ.get("OVS_RUNDIR", os.getcwd()), "linerate")
RUN = os.path.dirname(FOLDER)
PATIENCE = 30.0
# Cases ask for a port of the number 100, and those below it are taken meanwhile.
ROOM = "104"
MEMORY = "64M"
# What Open vSwitch allows unless told otherwise, and ours does not limit.
MOST_CONNECTIONS = 3000000


class Failure(Exception):
    """What Open vSwitch's program would complain of."""


def own(program):
    """The path of Open vSwitch's own program."""
    for folder in ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"):
        path = os.path.join(folder, program)
        if os.access(path, os.X_OK):
            return path
    raise Failure(f"there is no {program}")


def run(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


# The state of what runs: bridges with their ports.


def load():
    try:
        with open(os.path.join(FOLDER, "state.json")) as file:
            return json.load(file)
    except FileNotFoundError:
        return {"bridges": {}, "most": MOST_CONNECTIONS, "timeouts": {}}


def save(state):
    path = os.path.join(FOLDER, "state.json")
    with open(path + ".new", "w") as file:
        json.dump(state, file)
    os.rename(path + ".new", path)


def control(bridge):
    return os.path.join(FOLDER, bridge + ".control")


def read(bridge, handler, parameter=None):
    words = [LINERATE, "call", control(bridge), "flows." + handler]
    if parameter is not None:
        words += ["--parameter", parameter]
    return run(*words)


def write(bridge, handler, value):
    words = [LINERATE, "call", "--write", control(bridge), "flows." + handler]
    run(*words, *([value] if value else []))


def bridges():
    return sorted(load()["bridges"])


# What the database says.


def plain(value):
    if isinstance(value, list) and value[0] == "set":
        return [plain(item) for item in value[1]]
    if isinstance(value, list) and value[0] == "map":
        return dict((plain(key), plain(item)) for key, item in value[1])
    if isinstance(value, list):
        return value[1]
    return value


def table(name, *columns):
    words = ["--no-wait", "--format=json", "--columns=" + ",".join(("_uuid",) + columns)]
    told = json.loads(run(own("ovs-vsctl"), *words, "list", name))
    rows = {}
    for row in told["data"]:
        values = dict(zip(told["headings"], map(plain, row)))
        rows[values["_uuid"]] = values
    return rows


def many(value):
    return value if isinstance(value, list) else [value]


def wanted():
    """Bridges by name: the address of their own port, and ports by name."""
    ports = table("Port", "name", "interfaces", "tag", "vlan_mode", "qos")
    interfaces = table("Interface", "name", "type", "options", "ofport_request")
    found = {}
    for bridge in table("Bridge", "name", "ports", "other_config").values():
        members = {}
        for uuid in many(bridge["ports"]):
            port = ports[uuid]
            if port["tag"] != [] or port["vlan_mode"] != []:
                raise Failure(f"port {port['name']}: ports have no VLANs of their own here, flows have")
            if port["qos"] != []:
                raise Failure(f"port {port['name']}: queues are set up by tc here, not by the switch")
            if len(many(port["interfaces"])) != 1:
                raise Failure(f"port {port['name']}: there are no bonds here")
            interface = interfaces[many(port["interfaces"])[0]]
            members[port["name"]] = interface
        found[bridge["name"]] = {
            "mac": bridge["other_config"].get("hwaddr"),
            "ports": members,
        }
    return found


# Making what runs so.


def start(bridge):
    said = open(os.path.join(FOLDER, bridge + ".said"), "w")
    words = [
        LINERATE, "switch", "--openflow", "punix:" + os.path.join(RUN, bridge + ".mgmt"),
        "--tables", "254", "--control", control(bridge), "--arena", MEMORY, "--no-huge", "--room", ROOM,
    ]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
    )
    until = time.monotonic() + PATIENCE
    while True:
        asked = subprocess.run(
            [LINERATE, "call", control(bridge), "--ready", "--timeout", "10s"], capture_output=True
        )
        if asked.returncode == 0:
            break
        if process.poll() is not None or time.monotonic() > until:
            raise Failure(f"the switch of {bridge} does not start: see {said.name}")
        time.sleep(0.02)
    if subprocess.run(["ip", "link", "show", bridge], capture_output=True).returncode != 0:
        # Its own port stays where the port of the switch gets another number.
        run("ip", "tuntap", "add", "dev", bridge, "mode", "tap")
        # Until a case sets it up its stack says nothing.
        run("ip", "link", "set", "dev", bridge, "down")
    return {"process": process.pid, "ports": {}, "next": 1, "mac": None}


def legal(name):
    """The name of a port as ours can have it."""
    return re.sub(r"\W", "_", name)


def behind(bridge, name, interface):
    """The port of ours for an interface, and what is made for it."""
    kind, options = interface["type"], interface["options"]
    if name == bridge:
        return f"tap:{name}?up=off"
    if kind in ("", "system"):
        # By its queueing discipline, where what captures on the interface sees what is sent.
        return f"packet:{name}?qdisc"
    if kind == "patch":
        pair = sorted((name, options["peer"]))
        ends = ["patch%d%s" % (sum(map(ord, "".join(pair))) % 9973, end) for end in "ab"]
        if subprocess.run(["ip", "link", "show", ends[0]], capture_output=True).returncode != 0:
            run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            for end in ends:
                run("ip", "link", "set", "dev", end, "up")
        return "packet:" + ends[pair.index(name)]
    if kind == "vxlan":
        # The tunnel is the kernel's.
        number = options.get("key", "0")
        words = ["id", number, "remote", options["remote_ip"], "dstport", options.get("dst_port", "4789")]
        if ":" in options["remote_ip"]:
            # As Open vSwitch's, it sends and takes UDP without checksums.
            words += ["udp6zerocsumtx", "udp6zerocsumrx"]
        run("ip", "link", "add", name, "type", "vxlan", *words)
        run("ip", "link", "set", "dev", name, "up")
        return f"packet:{name}"
    raise Failure(f"port {name}: there are no ports of type {kind} here")


def numbers(bridge, known, ports):
    """The number each port gets: as requested, else the next."""
    given, following = {}, known["next"]
    for name, interface in ports.items():
        if name == bridge:
            continue
        request = interface["ofport_request"]
        if request != []:
            given[name] = request
    taken = set(given.values())
    for name in sorted(ports):
        if name == bridge or name in given:
            continue
        kept = known["ports"].get(name)
        if kept is not None and kept not in taken:
            given[name] = kept
        else:
            while following in taken:
                following += 1
            given[name] = following
            following += 1
        taken.add(given[name])
    known["next"] = max([following] + [number + 1 for number in given.values()])
    # The bridge's own port is behind the others: ours knows no LOCAL.
    if bridge in ports:
        given[bridge] = max(taken, default=0) + 1
    return given


def sync(state):
    """Makes the switches that run what the database says."""
    target = wanted()
    for bridge in list(state["bridges"]):
        if bridge not in target:
            stop(state["bridges"].pop(bridge)["process"])
    for bridge, about in target.items():
        if bridge not in state["bridges"]:
            state["bridges"][bridge] = start(bridge)
            for zone, said in state["timeouts"].items():
                write(bridge, "connection_timeouts", f"zone={zone} {said}")
        known = state["bridges"][bridge]
        at = ["--control", control(bridge)]
        if about["mac"] and about["mac"] != known["mac"]:
            run("ip", "link", "set", "dev", bridge, "address", about["mac"].strip('"'))
            known["mac"] = about["mac"]
        given = numbers(bridge, known, about["ports"])
        for name, number in list(known["ports"].items()):
            if given.get(name) != number:
                run(LINERATE, "switch", "remove", legal(name), *at)
                del known["ports"][name]
        fillers = []
        taken = set(known["ports"].values())
        for name, number in sorted(given.items(), key=lambda pair: pair[1]):
            if name in known["ports"]:
                continue
            # A port gets the smallest number that is free.
            for free in range(1, number):
                if free not in taken:
                    filler = f"filler{free}"
                    run(LINERATE, "switch", "add", f"{filler}=null:{filler}?count=0", *at)
                    fillers.append(filler)
                    taken.add(free)
            uri = behind(bridge, name, about["ports"][name])
            run(LINERATE, "switch", "add", f"{legal(name)}={uri}", *at)
            known["ports"][name] = number
            taken.add(number)
            if name != bridge:
                run(own("ovs-vsctl"), "--no-wait", "set", "Interface", name, f"ofport={number}")
        for filler in fillers:
            run(LINERATE, "switch", "remove", filler, *at)
        save(state)


def stop(process):
    try:
        os.kill(process, signal.SIGTERM)
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            os.kill(process, 0)
            time.sleep(0.01)
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


# The programs.


def ovs_vswitchd(words):
    """A process to be waited for, with the files that cases look at."""
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(RUN, "ovs-vswitchd.log"), "w") as log:
        log.write("Datapath supports ct_clear action\n")
    process = os.fork()
    if process == 0:
        os.setsid()
        # It holds no pipe of the case open.
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        signal.pause()
        os._exit(0)
    with open(os.path.join(RUN, "ovs-vswitchd.pid"), "w") as file:
        file.write(f"{process}\n")
    return 0


def ovs_vsctl(words):
    done = subprocess.run([own("ovs-vsctl"), "--no-wait"] + words)
    if done.returncode != 0 or not os.path.isdir(FOLDER):
        return done.returncode
    with open(os.path.join(FOLDER, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = load()
        try:
            if "add-zone-tp" in words or "del-zone-tp" in words:
                set_timeouts(state, words)
            else:
                sync(state)
        finally:
            save(state)
    return 0


# The time-outs that Open vSwitch's userspace datapath has, and ours.
TIMEOUTS = (
    "tcp_syn_sent", "tcp_syn_recv", "tcp_established", "tcp_fin_wait", "tcp_time_wait", "tcp_close",
    "udp_first", "udp_single", "udp_multiple", "icmp_first", "icmp_reply",
)


def set_timeouts(state, words):
    """Time-outs of a zone, as the words of `ovs-vsctl` say."""
    said = dict(word.split("=", 1) for word in words if re.fullmatch(r"[a-z_]+=\d+", word))
    zone = said.pop("zone")
    text = "none"
    if "add-zone-tp" in words:
        text = " ".join(f"{name}={said[name]}" for name in TIMEOUTS if name in said)
        state["timeouts"][zone] = text
    else:
        state["timeouts"].pop(zone, None)
    for bridge in state["bridges"]:
        write(bridge, "connection_timeouts", f"zone={zone} {text}")


def ovs_ofctl(words):
    names = {}
    state = load()["bridges"]
    for bridge in state.values():
        names.update((name, legal(name)) for name in bridge["ports"] if legal(name) != name)

    def renamed(text):
        for name in sorted(names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", names[name], text)
        return text

    said = []
    for number, word in enumerate(words):
        is_file = word.endswith(".txt") and os.path.isfile(word)
        if is_file and names:
            with open(word) as file:
                text = renamed(file.read())
            word = os.path.join(FOLDER, f"{os.path.basename(word)}.{os.getpid()}")
            with open(word, "w") as file:
                file.write(text)
        elif not is_file and word not in state:
            word = renamed(word)
        said.append(word)
    os.execv(own("ovs-ofctl"), ["ovs-ofctl"] + said)


FRAGMENTS = """\
        Fragmentation Module Status
        ---------------------------
        v4 enabled: 1
        v6 enabled: 1
        max num frags (v4/v6): {most}
        num frag: {waiting}
"""

FRAGMENTS_OF = """\
        min {version} frag size: {shortest}
        {version} frags accepted: {accepted}
        {version} frags completed: {completed}
        {version} frags expired: {expired}
        {version} frags too small: {short}
        {version} frags overlapped: {overlapping}
        {version} frags purged: 0
"""


def connections(zone=None):
    lines = []
    for bridge in bridges():
        for line in read(bridge, "connections", "limit=1000000").splitlines():
            line = re.sub(r",timeout=\d+$", "", line)
            of = re.search(r",zone=(\d+)", line)
            if zone is None or int(of.group(1) if of else 0) == zone:
                lines.append(line)
    return lines


def pairs(line):
    return dict(part.split("=", 1) for part in line.strip().split(","))


WAITING = (
    "(src={src},dst={dst},recirc_id=0,ip_id={number},dl_type={kind},zone={zone},nw_proto={protocol},"
    "num_fragments={fragments},state={state})\n"
)
ENDS = {"first": "first frag", "last": "last frag", "both": "first/last frag", "none": "other frag"}


def fragments(more):
    lines = []
    for bridge in bridges():
        lines = [pairs(line) for line in read(bridge, "fragments").splitlines()]
        if any(int(line.get("accepted", 0)) for line in lines):
            break
    versions = [line for line in lines if "version" in line]
    waiting = sum(int(line["waiting"]) for line in versions)
    told = FRAGMENTS.format(most=lines[0]["most"], waiting=waiting)
    told += "".join(FRAGMENTS_OF.format(**line) for line in versions)
    if more:
        told += "\n        Fragment Lists:\n\n"
        for line in lines:
            if "src" in line:
                kind = "0x86dd" if ":" in line["src"] else "0x800"
                told += WAITING.format(kind=kind, state=ENDS[line["ends"]], **line)
    return told


# The tuple's fields by the words of an entry of the dump.
ENTRY = {
    "ct_nw_src": "src", "ct_nw_dst": "dst", "ct_ipv6_src": "src", "ct_ipv6_dst": "dst",
    "ct_tp_src": "sport", "ct_tp_dst": "dport", "icmp_id": "id", "icmp_type": "type", "icmp_code": "code",
}
PROTOCOLS = {"1": "icmp", "2": "igmp", "6": "tcp", "17": "udp", "58": "icmpv6", "132": "sctp"}


def flush(words):
    zone = None
    if words and words[0].startswith("zone="):
        zone = int(words.pop(0)[len("zone="):])
    if not any(words):
        like = "" if zone is None else f"ct_zone={zone}"
        for bridge in bridges():
            write(bridge, "flush_connections", like)
        return ""
    sides = [pairs(word) if word else {} for word in words] + [{}]
    for bridge in bridges():
        for match in matches(connections(zone), *sides[:2]):
            write(bridge, "flush_connections", match)
    return ""


def matches(lines, original, reply):
    """Of entries of a dump that are like a tuple each way, what matches each."""
    for line in lines:
        protocol = line.split(",", 1)[0]
        either = [pairs(side) for side in re.search(r"orig=\((.*?)\),reply=\((.*?)\)", line).groups()]

        def agrees(tuple_, side):
            for field, value in tuple_.items():
                if field == "ct_nw_proto":
                    if PROTOCOLS.get(value, value) != protocol:
                        return False
                elif side.get(ENTRY[field]) != value:
                    return False
            return True

        exact = len(original) == 5 or "icmp_id" in original
        one = agrees(original, either[0]) and agrees(reply, either[1])
        if not one and not (exact and not reply and agrees(original, either[1])):
            continue
        zone = re.search(r",zone=(\d+)", line)
        number = next((key for key, name in PROTOCOLS.items() if name == protocol), protocol)
        is_v6 = ":" in either[0]["src"]
        match = [f"ct_zone={zone.group(1) if zone else 0}", f"ct_nw_proto={number}"]
        source, destination = ("ct_ipv6_src", "ct_ipv6_dst") if is_v6 else ("ct_nw_src", "ct_nw_dst")
        match += [f"{source}={either[0]['src']}", f"{destination}={either[0]['dst']}"]
        if "sport" in either[0]:
            match += [f"ct_tp_src={either[0]['sport']}", f"ct_tp_dst={either[0]['dport']}"]
        yield ",".join(match)


def limits(bridge):
    told = [pairs(line) for line in read(bridge, "connection_limits").splitlines()]
    default = told[0]["limit"]
    return ("0" if default == "none" else default), {int(line["zone"]): line for line in told[1:]}


def get_limits(words):
    bridge = bridges()[0]
    default, zones = limits(bridge)
    told = f"default limit={default}\n"
    asked = sorted(zones)
    if words:
        asked = [int(zone) for zone in words[0][len("zone="):].split(",")]
    for zone in asked:
        line = zones.get(zone)
        limit = line["limit"] if line else default
        count = line["count"] if line else str(len(connections(zone)))
        told += f"zone={zone},limit={limit},count={count}\n"
    return told


def set_limits(words):
    said = []
    for word in words:
        about = pairs(word)
        zone = "default" if "default" in about else about["zone"]
        said.append(f"{zone}={about.get('default', about.get('limit'))}")
    for bridge in bridges():
        write(bridge, "connection_limits", " ".join(said))
    return ""


def delete_limits(words):
    zones = words[0][len("zone="):].split(",")
    for bridge in bridges():
        write(bridge, "connection_limits", " ".join(f"{zone}=none" for zone in zones))
    return ""


def of_datapath(words, complaint):
    """Without the name of a datapath, which only ours has."""
    if words and words[0] not in ("netdev@ovs-netdev", "ovs-netdev"):
        raise Failure(complaint)
    return words[1:]


def most_connections(words):
    malformed = "maxconns missing or malformed (Invalid argument)"
    if not words or not words[-1].isdigit():
        raise Failure(malformed)
    of_datapath(words[:-1], "datapath not found (Invalid argument)")
    state = load()
    state["most"] = int(words[-1])
    save(state)
    return "setting maxconns successful\n"


def number_of_connections(words):
    of_datapath(words, "datapath not found (Invalid argument)")
    return f"{sum(int(read(bridge, 'connection_count')) for bridge in bridges())}\n"


def get_most_connections(words):
    of_datapath(words, "datapath not found (Invalid argument)")
    return f"{load()['most']}\n"


def dump(words):
    zone = next((int(word[len("zone="):]) for word in words if word.startswith("zone=")), None)
    return "".join(line + "\n" for line in connections(zone))


def datapath_flows(words):
    """Entries of the fast path in Open vSwitch's form, as far as ours have what its have."""
    wanted = next((word[len("filter=in_port="):] for word in words if word.startswith("filter=in_port=")), None)
    lines = []
    for bridge, known in load()["bridges"].items():
        names = {str(number): name for name, number in known["ports"].items()}
        for line in read(bridge, "cache").splitlines():
            match, counted = line.split(", packets:", 1)
            parts = []
            for part in match.split(","):
                field, _, value = part.partition("=")
                if field == "in_port":
                    value = names.get(value, value)
                    part = None if wanted not in (None, value) else part
                if part is None:
                    break
                parts.append(f"{field}({value})" if value else field)
            else:
                lines.append(f"{','.join(parts)}, packets:{counted}\n")
    return "".join(lines)


def shortest(words):
    for bridge in bridges():
        write(bridge, "fragments", f"shortest_{words[0]}={words[1]}")
    return "setting minimum fragment size successful\n"


def most_fragments(words):
    for bridge in bridges():
        write(bridge, "fragments", f"most={words[0]}")
    return "setting maximum fragments successful\n"


def leave(words):
    state = load()
    for bridge in state["bridges"].values():
        stop(bridge["process"])
    for bridge in state["bridges"]:
        subprocess.run(["ip", "link", "del", bridge], capture_output=True)
    path = os.path.join(RUN, "ovs-vswitchd.pid")
    with open(path) as file:
        process = int(file.read())
    os.unlink(path)
    os.kill(process, signal.SIGKILL)
    return ""


def nothing(words):
    return ""


COMMANDS = {
    "exit": leave,
    "vlog/set": nothing,
    "revalidator/purge": nothing,
    "revalidator/wait": nothing,
    "dpif/set-dp-features": nothing,
    "dpif/show-dp-features": lambda words: "MPLS Label add: Yes\nMPLS Label add: Yes\n",
    "dpctl/dump-conntrack": dump,
    "dpctl/flush-conntrack": flush,
    "dpctl/ct-get-limits": get_limits,
    "dpctl/ct-set-limits": set_limits,
    "dpctl/ct-del-limits": delete_limits,
    "dpctl/ct-get-nconns": number_of_connections,
    "dpctl/ct-get-maxconns": get_most_connections,
    "dpctl/ct-set-maxconns": most_connections,
    "dpctl/ipf-set-min-frag": shortest,
    "dpctl/ipf-set-max-nfrags": most_fragments,
    "dpctl/dump-flows": lambda words: datapath_flows(words),
    "dpctl/ipf-get-status": lambda words: fragments(bool(words)),
}


def ovs_appctl(words):
    target, said = "ovs-vswitchd", list(words)
    if said and said[0] in ("-t", "--target"):
        target = said[1]
        said = said[2:]
    elif said and said[0].startswith("--target="):
        target = said[0][len("--target="):]
        said = said[1:]
    if target != "ovs-vswitchd":
        os.execv(own("ovs-appctl"), ["ovs-appctl"] + words)
    command = COMMANDS.get(said[0])
    try:
        if command is None:
            raise Failure(f'"{said[0]}" is not a valid command')
        sys.stdout.write(command(said[1:]))
    except Failure as failure:
        # As the daemon says it.
        sys.stderr.write(f"ovs-vswitchd: {failure}\novs-appctl: ovs-vswitchd: server returned an error\n")
        return 2
    return 0


def ovs_dpctl(words):
    return ovs_appctl(["dpctl/" + words[0]] + words[1:])


PROGRAMS = {
    "ovs-vswitchd": ovs_vswitchd,
    "ovs-vsctl": ovs_vsctl,
    "ovs-ofctl": ovs_ofctl,
    "ovs-appctl": ovs_appctl,
    "ovs-dpctl": ovs_dpctl,
}


def main():
    name = os.path.basename(sys.argv[0])
    try:
        return PROGRAMS[name](sys.argv[1:])
    except Failure as failure:
        sys.stderr.write(f"{name}: {failure}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
