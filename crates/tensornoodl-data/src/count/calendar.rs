//! Units of the calendar and the clock.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime};

use crate::input::time::{date_of, days_of};

/// A unit of the calendar or the clock. Times are taken as they are written; a time zone is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A month of a year.
    Month,
    /// A week of a year. A week starts on Sunday and on 1 January, as in the paper, where a season has 27 weeks.
    Week,
    /// A day.
    Day,
    /// An hour of the day.
    Hour,
    /// A day of the week, Monday first.
    Weekday,
    /// An hour of the week. The first is the first hour of Monday.
    WeekHour,
}

/// The units and their names in an axis.
pub(crate) const UNITS: [(Unit, &str); 6] = [
    (Unit::Month, "month"),
    (Unit::Week, "week"),
    (Unit::Day, "day"),
    (Unit::Hour, "hour"),
    (Unit::Weekday, "weekday"),
    (Unit::WeekHour, "weekhour"),
];

impl Unit {
    /// Returns the number of the unit that a time lies in.
    ///
    /// The number of a month, a week or a day is the number of days from 1 January 1970 to its first day.
    pub(crate) fn number(self, time: DateTime) -> i64 {
        match self {
            Unit::Hour => time.hour().into(),
            Unit::Weekday => time.weekday().to_monday_zero_offset().into(),
            Unit::WeekHour => 24 * i64::from(time.weekday().to_monday_zero_offset()) + i64::from(time.hour()),
            Unit::Month | Unit::Week | Unit::Day => days_of(self.first_day(time.date())),
        }
    }

    /// Returns the first day of the month, the week or the day that a date lies in.
    fn first_day(self, date: Date) -> Date {
        match self {
            Unit::Month => date.first_of_month(),
            Unit::Week => {
                let since_sunday = i64::from(date.weekday().to_sunday_zero_offset());
                let sunday = date.saturating_sub(since_sunday.days());
                if sunday.year() < date.year() { date.first_of_year() } else { sunday }
            }
            _ => date,
        }
    }

    /// Returns the number of the next unit.
    fn next(self, number: i64) -> i64 {
        let Some(date) = date_of(number) else { return number + 1 };
        match self {
            Unit::Month => days_of(date.last_of_month()) + 1,
            Unit::Week => {
                let sunday = days_of(date) + i64::from(7 - date.weekday().to_sunday_zero_offset());
                sunday.min(days_of(date.last_of_year()) + 1)
            }
            _ => number + 1,
        }
    }

    /// Returns the label of the unit with this number.
    pub(crate) fn label(self, number: i64) -> String {
        match (self, date_of(number)) {
            (Unit::Hour, _) => format!("{number:02}:00"),
            (Unit::Weekday, _) => weekday(number).into(),
            (Unit::WeekHour, _) => format!("{} {:02}:00", weekday(number / 24), number % 24),
            (Unit::Month, Some(date)) => format!("{:04}-{:02}", date.year(), date.month()),
            (Unit::Week, Some(date)) => date.strftime("%Y-W%U").to_string(),
            (_, Some(date)) => date.to_string(),
            (_, None) => number.to_string(),
        }
    }

    /// Returns the numbers of all units from `first` to `last`, at most `limit` of them. Hours and days of the week
    /// are always complete.
    pub(crate) fn between(self, first: i64, last: i64, limit: usize) -> Vec<i64> {
        match self {
            Unit::Hour => (0..24).collect(),
            Unit::Weekday => (0..7).collect(),
            Unit::WeekHour => (0..7 * 24).collect(),
            _ => std::iter::successors(Some(first), |number| Some(self.next(*number)))
                .take_while(|number| *number <= last)
                .take(limit)
                .collect(),
        }
    }
}

fn weekday(number: i64) -> &'static str {
    const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    NAMES[number.rem_euclid(7) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::time::parse_time;

    #[test]
    fn times_have_the_labels_of_their_units() {
        let label = |unit: Unit, text: &str| unit.label(unit.number(parse_time(text).unwrap()));
        assert_eq!(label(Unit::Month, "1998-11-13T09:07:00"), "1998-11");
        assert_eq!(label(Unit::Day, "1998-11-13 09:07"), "1998-11-13");
        assert_eq!(label(Unit::Hour, "1998-11-13 09:07:59.5Z"), "09:00");
        assert_eq!(label(Unit::Weekday, "2018-12-16"), "Sun");
        assert_eq!(label(Unit::WeekHour, "2018-12-16 17:20"), "Sun 17:00");
        // The paper's week 10 of the season 2018-19.
        assert_eq!(label(Unit::Week, "2018-12-16"), label(Unit::Week, "2018-12-22"));
        assert_ne!(label(Unit::Week, "2018-12-22"), label(Unit::Week, "2018-12-23"));
        // A week is split at 1 January.
        assert_ne!(label(Unit::Week, "2018-12-31"), label(Unit::Week, "2019-01-01"));
        assert_eq!(label(Unit::Week, "2019-01-01"), label(Unit::Week, "2019-01-05"));
        assert_eq!(label(Unit::Week, "2019-01-05"), "2019-W00");
        for text in ["", "yesterday", "2018-13-01", "2018-02-30", "13/11/1998"] {
            assert!(parse_time(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_season_of_the_paper_has_27_weeks() {
        let number = |unit: Unit, text: &str| unit.number(parse_time(text).unwrap());
        let week = |text: &str| number(Unit::Week, text);
        let weeks = Unit::Week.between(week("2018-10-16"), week("2019-04-10"), 100);
        assert_eq!(weeks.len(), 27);
        assert_eq!(Unit::Week.label(weeks[9]), Unit::Week.label(week("2018-12-16")));
        let month = |text: &str| number(Unit::Month, text);
        let months = Unit::Month.between(month("1998-11-13"), month("2002-06-21"), 100);
        assert_eq!((months.len(), Unit::Month.label(months[43])), (44, "2002-06".into()));
        assert_eq!(Unit::Day.between(0, 30, 100).len(), 31);
        assert_eq!(Unit::Day.between(0, 30, 10).len(), 10);
        assert_eq!(Unit::Hour.between(3, 4, 100).len(), 24);
    }

    /// Units follow each other without gap or overlap, checked on every day of ten years.
    #[test]
    fn units_follow_each_other() {
        for unit in [Unit::Month, Unit::Week, Unit::Day] {
            let day =
                |days: i64| unit.number(date_of(days).unwrap().to_datetime(jiff::civil::Time::midnight()));
            for days in 10_000..13_650 {
                let (here, next) = (day(days), day(days + 1));
                assert!(next == here || next == unit.next(here), "{unit:?} {days}");
                assert!(here <= days && days < unit.next(here));
            }
        }
    }
}
