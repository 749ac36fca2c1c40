//! Dates and times.

use jiff::Span;
use jiff::civil::{Date, DateTime};

const EPOCH: Date = jiff::civil::date(1970, 1, 1);

pub(crate) fn days(date: Date) -> i64 {
    // A difference of dates in days is always whole.
    date.since(EPOCH).map_or(0, |span| span.get_days().into())
}

/// The date so many days after 1 January 1970.
pub(crate) fn date(days: i64) -> Option<Date> {
    EPOCH.checked_add(Span::new().try_days(days).ok()?).ok()
}

/// A time as tables have it: a date, or a date and a time of day. A zone is not looked at.
pub(crate) fn time(text: &str) -> Option<DateTime> {
    let text = text.trim();
    text.strip_suffix(['Z', 'z']).unwrap_or(text).parse().ok()
}
