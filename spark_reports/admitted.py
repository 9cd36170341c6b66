"""The admitted parts of a `report --sql` question, by Spark's own names: all others are refused.

Every entry of these lists computes from its arguments alone. Left out on purpose: parts that start a program
(ScriptTransformation), call Java (reflect, java_method, try_reflect), read or reveal a file's name (read_files,
input_file_name), parse XML, Avro or Protobuf (these load files that the data names), reveal the user of Spark
(current_user), and every command but SHOW TABLES and DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterator

_CATALYST = "org.apache.spark.sql.catalyst"


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


def _classes(package: str, names: str) -> Iterator[str]:
    return (f"{package}.{name}" for name in names.split())


FUNCTIONS = _words(
    # over many rows
    """
    any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and bool_or
    collect_list collect_set corr count count_if covar_pop covar_samp cume_dist dense_rank every first first_value
    grouping grouping_id histogram_numeric kurtosis lag last last_value lead listagg max max_by mean median min
    min_by mode nth_value ntile percent_rank percentile percentile_approx percentile_cont percentile_disc rank
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number
    skewness some std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance
    """,
    # one row to many
    """
    explode explode_outer inline inline_outer posexplode posexplode_outer stack
    """,
    # arrays, maps and structs
    """
    aggregate array array_append array_compact array_contains array_distinct array_except array_insert
    array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat
    array_size array_sort array_union arrays_overlap arrays_zip cardinality concat element_at exists filter
    flatten forall get map map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries
    map_keys map_values map_zip_with named_struct reduce reverse sequence shuffle size slice sort_array str_to_map
    struct transform transform_keys transform_values try_element_at zip_with
    """,
    # text
    """
    ascii base64 bit_length btrim char char_length character_length chr concat_ws contains crc32 decode elt encode
    endswith find_in_set format_number format_string from_json get_json_object hash initcap instr is_valid_utf8
    json_array_length json_object_keys json_tuple lcase left len length levenshtein locate lower lpad ltrim mask
    md5 octet_length overlay position printf quote regexp_count regexp_extract regexp_extract_all regexp_instr
    regexp_replace regexp_substr repeat replace right rpad rtrim schema_of_json sentences sha sha1 sha2 soundex
    space split split_part startswith substr substring substring_index to_binary to_char to_json to_number
    to_varchar translate trim try_to_binary try_to_number ucase unbase64 upper xxhash64
    """,
    # numbers
    """
    abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling conv cos cosh cot
    csc degrees div e exp expm1 factorial floor getbit greatest hex hypot least ln log log10 log1p log2 mod
    negative pi pmod positive pow power radians rand randn random rint round sec shiftleft shiftright
    shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract
    unhex width_bucket
    """,
    # time
    """
    add_months convert_timezone curdate current_date current_timestamp current_timezone date_add date_diff
    date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth
    dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day localtimestamp make_date
    make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute
    month monthname months_between next_day now quarter second timestamp_micros timestamp_millis timestamp_seconds
    to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_to_date
    try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year
    """,
    # conditions and types
    """
    and between bigint binary boolean case cast coalesce date decimal double equal_null float if ifnull ilike in
    int isnan isnotnull isnull like nanvl not nullif nullifzero nvl nvl2 or regexp regexp_like rlike smallint
    string timestamp tinyint typeof when zeroifnull
    """,
)
"""Functions by name. A test asks each one's own example from Spark's documentation."""

TABLE_FUNCTIONS = _words("range explode explode_outer inline inline_outer posexplode posexplode_outer stack")
"""Functions that stand where a table does."""

NODES = frozenset(
    [
        *_classes(
            f"{_CATALYST}.plans.logical",
            """
            Aggregate CTERelationDef Distinct Except Expand Filter Generate GlobalLimit Intersect Join
            LateralJoin LimitAll LocalLimit Offset Pivot Project RepartitionByExpression ResolvedHint
            Sample Sort SubqueryAlias Union UnionLoop Unpivot UnresolvedHint UnresolvedWith Window WithCTE
            WithWindowDefinition
            """,
        ),
        *_classes(
            f"{_CATALYST}.analysis",
            """
            MultiAlias UnresolvedAlias UnresolvedExtractValue UnresolvedHaving UnresolvedInlineTable
            UnresolvedOrdinal UnresolvedQualify UnresolvedStar UnresolvedStarExceptOrReplace
            UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
            """,
        ),
        *_classes(
            f"{_CATALYST}.expressions",
            """
            Abs Acos Acosh Add AddMonths Alias And ArrayAggregate ArrayAppend ArrayCompact ArrayContains
            ArrayDistinct ArrayExcept ArrayExists ArrayFilter ArrayForAll ArrayInsert ArrayIntersect
            ArrayJoin ArrayMax ArrayMin ArrayPosition ArrayPrepend ArrayRemove ArrayRepeat ArraySize
            ArraySort ArrayTransform ArrayUnion ArraysOverlap ArraysZip Ascii Asin Asinh Atan Atan2 Atanh
            BRound Base64 Between Bin BinaryPad BinaryPredicate BitLength BitwiseAnd BitwiseCount
            BitwiseGet BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Cbrt Ceil Chr Coalesce
            CommonExpressionDef CommonExpressionRef Concat ConcatWs Contains Conv ConvertTimezone Cos Cosh
            Cot Crc32 CreateArray CreateMap CreateNamedStruct Csc Cube CumeDist CurrentDate
            CurrentTimeZone CurrentTimestamp DateAdd DateAddInterval DateAddYMInterval DateDiff
            DateFormatClass DateFromUnixDate DateSub DatetimeSub DayName DayOfMonth DayOfWeek DayOfYear
            Decode DenseRank Divide DivideDTInterval DivideInterval DivideYMInterval ElementAt Elt Encode
            EndsWith EqualNull EqualNullSafe EqualTo EulerNumber Exists Exp Explode Expm1 Extract
            ExtractANSIIntervalDays ExtractANSIIntervalMinutes ExtractANSIIntervalMonths
            ExtractANSIIntervalSeconds Factorial FindInSet Flatten Floor FormatNumber FormatString
            FromUTCTimestamp FromUnixTime Get GetArrayItem GetArrayStructFields GetJsonObject GetMapValue
            GetStructField GreaterThan GreaterThanOrEqual Greatest Grouping GroupingID GroupingSets Hex
            Hour Hypot ILike If In InSubquery InitCap Inline IntegralDivide IsNaN IsNotNull
            IsNotUnknown$$anon$2 IsNull IsUnknown$$anon$1 IsValidUTF8 JsonObjectKeys JsonToStructs
            JsonTuple Lag LambdaFunction LastDay LateralColumnAliasReference LateralSubquery Lead Least
            Left Length LengthOfJsonArray LessThan LessThanOrEqual Levenshtein Like LikeAll LikeAny
            ListQuery LocalTimestamp Log Log10 Log1p Log2 Logarithm Lower MakeDTInterval MakeDate
            MakeInterval MakeTimestamp MakeTimestampFromDateTime MakeTimestampNTZ MakeYMInterval MapConcat
            MapContainsKey MapEntries MapFilter MapFromArrays MapFromEntries MapKeys MapValues MapZipWith
            Mask Md5 MicrosToTimestamp MillisToTimestamp Minute Month MonthName MonthsBetween Multiply
            MultiplyDTInterval MultiplyInterval MultiplyYMInterval Murmur3Hash NTile NaNvl
            NamedArgumentExpression NextDay Not NotLikeAll NotLikeAny Now NthValue NullIf NullIfResult
            NullIfZero Nvl Nvl2 OctetLength Or OuterReference Overlay ParseToDate ParseToTimestamp
            PercentRank Pi PipeExpression PipeOperator Pmod PosExplode Pow Quarter Quote RLike Rand Randn
            Rank RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr
            Remainder Reverse Right Rint Rollup Round RoundCeil RoundFloor RowNumber ScalarSubquery
            SchemaOfJson Sec Second SecondWithFraction SecondsToTimestamp Sentences Sequence Sha1 Sha2
            ShiftLeft ShiftRight ShiftRightUnsigned Shuffle Signum Sin Sinh Size Slice SortArray SortOrder
            SoundEx SpecifiedWindowFrame SplitPart Sqrt Stack StartsWith StringDecode StringInstr
            StringInstrWithOccurrence StringLPad StringLocate StringRPad StringRepeat StringReplace
            StringSpace StringSplit StringToMap StringTranslate StringTrim StringTrimBoth StringTrimLeft
            StringTrimRight StructsToJson Substring SubstringIndex Subtract SubtractDates
            SubtractTimestamps Tan Tanh TimestampAdd TimestampAddInterval TimestampAddYMInterval
            TimestampDiff ToBinary ToCharacter ToDegrees ToNumber ToRadians ToUTCTimestamp ToUnixTimestamp
            TransformKeys TransformValues TruncDate TruncTimestamp TryAdd TryDivide TryElementAt TryEval
            TryMod TryMultiply TrySubtract TryToBinary TryToNumber TypeOf UnBase64 UnaryMinus
            UnaryPositive Unhex UnixDate UnixMicros UnixMillis UnixSeconds UnixTimestamp
            UnresolvedWindowExpression Upper WeekDay WeekOfYear WidthBucket WindowExpression
            WindowSpecDefinition WindowSpecReference With XxHash64 Year ZeroIfNull ZipWith
            """,
        ),
        *_classes(
            f"{_CATALYST}.expressions.aggregate",
            """
            AggregateExpression AnyValue ApproximatePercentile Average BitAndAgg BitOrAgg BitXorAgg
            BoolAnd BoolOr CollectList CollectSet Corr Count CountIf CovPopulation CovSample First
            HistogramNumeric HyperLogLogPlusPlus Kurtosis Last ListAgg Max MaxBy MaxMinByK Median Min
            MinBy Mode Percentile PercentileCont PercentileDisc PivotFirst RegrAvgX RegrAvgY RegrCount
            RegrIntercept RegrR2 RegrSXX RegrSXY RegrSYY RegrSlope Skewness StddevPop StddevSamp Sum
            VariancePop VarianceSamp
            """,
        ),
    ]
)
"""Steps of a plan and expressions: each is looked into, part by part."""

LEAVES = frozenset(
    [
        f"{_CATALYST}.AliasIdentifier",
        *_classes(
            f"{_CATALYST}.expressions",
            """
            Ascending$ AttributeReference CommonExpressionId CurrentRow$ Descending$ ExprId Literal
            NamePlaceholder$ NamedLambdaVariable NullsFirst$ NullsLast$ NumericEvalContext RangeFrame$
            RowFrame$ UnboundedFollowing$ UnboundedPreceding$ UnresolvedNamedLambdaVariable
            UnspecifiedFrame$
            """,
        ),
        *_classes(
            f"{_CATALYST}.expressions.aggregate",
            """
            Complete$
            """,
        ),
        *_classes(
            f"{_CATALYST}.analysis",
            """
            UnresolvedAttribute
            """,
        ),
        *_classes(
            f"{_CATALYST}.plans",
            """
            Cross$ FullOuter$ Inner$ LeftAnti$ LeftOuter$ LeftSemi$ NaturalJoin RightOuter$ UsingJoin
            """,
        ),
        *_classes(
            f"{_CATALYST}.plans.logical",
            """
            CTERelationRef HintInfo JoinHint LocalRelation OneRowRelation Range SampleMethod$Bernoulli$
            SampleMethod$System$ UnionLoopRef
            """,
        ),
        "java.util.UUID",
        "java.util.concurrent.atomic.AtomicReference",
        "org.apache.spark.unsafe.types.UTF8String",
        "scala.Enumeration$Val",
        "scala.None$",
    ]
)
"""Values and names: there is nothing in them that Spark could run or read."""

TYPES = "org.apache.spark.sql.types."
"""The package of data types; they are leaves, too."""
