//! Text of caught panics, for the log.

use std::any::Any;

/// Returns the text of a panic.
#[must_use]
pub fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_and_formatted_texts_are_found() {
        assert_eq!(text(&"literal"), "literal");
        assert_eq!(text(&String::from("formatted")), "formatted");
        assert_eq!(text(&7), "no message");
    }
}
