"""Import: functions of StableHLO and CHLO become graphs."""
