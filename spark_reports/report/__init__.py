"""The report: one HTML file that opens offline, and its tables as Parquet."""

from spark_reports.report.build import ReportResult, write_report

__all__ = ["ReportResult", "write_report"]
