"""Which records are from one machine: those of one name, unless the processor, its instruction sets or its cores differ."""

TRAITS = ["family", "model", "instruction sets", "cores"]


def traits_of(fields):
    """What a record says of its processor beyond the marketing name; records of earlier versions say less."""
    processor = fields["machine"]["processor"]
    sets = processor.get("instruction_sets")
    found = {"family": processor.get("family_number"), "model": processor.get("model_number"),
             "instruction sets": None if sets is None else " ".join(map(str, sets)),
             "cores": (processor.get("topology") or {}).get("cores")}
    return {name: str(value) for name, value in found.items() if value is not None}


def agree(one, other):
    return all(one[name] == other[name] for name in one.keys() & other.keys())


def groups_of(all_traits):
    """Machines of one name: what is known of each. What agrees with two machines tells of neither."""
    groups = []
    for traits in sorted(all_traits, key=len, reverse=True):
        fitting = [group for group in groups if agree(group, traits)]
        if len(fitting) == 1:
            fitting[0].update(traits)
        if not fitting:
            groups.append(dict(traits))
    return groups


def short(name, value, values):
    """A trait as a part of a name."""
    if value is None:
        return f"unknown {name}"
    if name == "cores":
        return f"{value} core{'' if value == '1' else 's'}"
    return own_sets(value, values) if name == "instruction sets" else f"{name} {value}"


def own_sets(value, values):
    """The instruction sets that not all machines of this name have; without any, which ones others have."""
    all_sets = [other.split() for other in values if other is not None]
    differing = [word for word in dict.fromkeys(sum(all_sets, [])) if not all(word in sets for sets in all_sets)]
    own = [word for word in value.split() if word in differing]
    return " ".join(own) if own else f"without {' '.join(differing)}"


def suffix_of(group, groups):
    """What tells a machine from the others of its name."""
    parts = []
    for name in TRAITS:
        values = [other.get(name) for other in groups]
        if len(set(values)) > 1:
            parts.append(short(name, group.get(name), values))
    return f" ({', '.join(parts)})"


def tell_machines_apart(records):
    """Adds to the names of machines what differs between those of one name. The name of a GPU stays as it is."""
    by_name = {}
    for record in records:
        if record.backend not in ("cuda", "hip"):
            by_name.setdefault(record.machine, []).append(record)
    for mine in by_name.values():
        groups = groups_of([record.traits for record in mine])
        if len(groups) < 2:
            continue
        for record in mine:
            fitting = [group for group in groups if agree(group, record.traits)]
            record.machine += suffix_of(fitting[0] if len(fitting) == 1 else record.traits, groups)
