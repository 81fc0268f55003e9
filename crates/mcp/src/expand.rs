//! Expansion of `${NAME}` in configurations.

/// Expands `${NAME}`, `${env:NAME}` and `${NAME:-default}`. What `lookup` does not know, and has no default, stays as it is
/// written: a server then fails with a value that says which variable is missing.
pub(crate) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, after) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = after.find('}') else {
            rest = after;
            break;
        };
        let inner = &after[2..end];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        match lookup(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&after[..=end]),
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_variables_are_replaced_once() {
        let lookup = |name: &str| match name {
            "A" => Some("${B}".to_owned()),
            "B" => Some("b".to_owned()),
            _ => None,
        };
        for (text, expected) in [
            ("plain $A", "plain $A"),
            ("x${B}y${env:B}", "xbyb"),
            ("${A}", "${B}"),
            ("${C}", "${C}"),
            ("${C:-d}${B:-d}", "db"),
            ("${B", "${B"),
            ("${}", "${}"),
        ] {
            assert_eq!(expand(text, &lookup), expected);
        }
    }
}
