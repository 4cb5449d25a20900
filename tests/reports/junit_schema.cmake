# Every golden JUnit report is valid by the schema, its numbers add up and its last case is the verdict; and each planted fault is refused.
# cmake -DXMLLINT=.. -DDATA=tests/testdata/reports -DGOLDEN=tests/golden/reports -DWORK=.. -P junit_schema.cmake
if(NOT EXISTS "${XMLLINT}")
  message(FATAL_ERROR "xmllint is needed: apt-get install libxml2-utils")
endif()

function(valid file result)
  execute_process(COMMAND ${XMLLINT} --noout --nonet --schema ${DATA}/junit.xsd ${file}
    RESULT_VARIABLE status ERROR_VARIABLE errors OUTPUT_QUIET)
  set(${result} ${status} PARENT_SCOPE)
  set(errors "${errors}" PARENT_SCOPE)
endfunction()

function(xpath file expression result)
  execute_process(COMMAND ${XMLLINT} --nonet --xpath ${expression} ${file}
    RESULT_VARIABLE status OUTPUT_VARIABLE value ERROR_VARIABLE errors OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${file}: ${expression}: ${errors}")
  endif()
  set(${result} "${value}" PARENT_SCOPE)
endfunction()

# All the structure that the schema language cannot say; empty when right.
function(structure_fault file result)
  set(${result} "" PARENT_SCOPE)
  foreach(rule IN ITEMS
      "number(/testsuites/@tests) = count(//testcase)"
      "number(/testsuites/@failures) = count(//failure)"
      "number(/testsuites/@errors) = count(//error)"
      "not(//testsuite[number(@tests) != count(testcase)])"
      "not(//testsuite[number(@failures) != count(testcase/failure)])"
      "not(//testsuite[number(@errors) != count(testcase/error)])"
      "not(//testsuite[number(@skipped) != count(testcase/skipped)])"
      "count(//testcase[@name = 'preflight.verdict']) = 1"
      "//testsuite[last()]/testcase[last()]/@name = 'preflight.verdict'"
      "boolean(//testcase[@name = 'preflight.verdict']/failure) or not(//failure | //error)"
      "not(//failure[not(normalize-space(.))] | //error[not(normalize-space(.))])")
    xpath(${file} "boolean(${rule})" holds)
    if(NOT holds STREQUAL "true")
      set(${result} "${rule}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

file(GLOB reports ${GOLDEN}/*.xml)
list(LENGTH reports count)
if(count LESS 5)
  message(FATAL_ERROR "expected at least 5 golden reports in ${GOLDEN}, found ${count}")
endif()
foreach(report IN LISTS reports)
  valid(${report} status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${report} is not valid: ${errors}")
  endif()
  structure_fault(${report} fault)
  if(fault)
    message(FATAL_ERROR "${report}: does not hold: ${fault}")
  endif()
endforeach()

# plant(name regex replacement by): the fault must change the report, and be refused by `by` (schema or structure).
function(plant name pattern replacement by)
  file(READ ${GOLDEN}/worst_first.xml text)
  string(REGEX REPLACE "${pattern}" "${replacement}" planted "${text}")
  if(planted STREQUAL text)
    message(FATAL_ERROR "planted fault '${name}' changed nothing")
  endif()
  set(file ${WORK}/junit_planted_${name}.xml)
  file(WRITE ${file} "${planted}")
  valid(${file} status)
  if(by STREQUAL "schema" AND status EQUAL 0)
    message(FATAL_ERROR "planted fault '${name}' was taken for valid")
  endif()
  if(by STREQUAL "structure")
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "planted fault '${name}' is one for the schema: ${errors}")
    endif()
    structure_fault(${file} fault)
    if(NOT fault)
      message(FATAL_ERROR "planted fault '${name}' was taken for right")
    endif()
  endif()
endfunction()

plant(unknown_element "<error " "<unknown " schema)
plant(no_type "failure type=\"[^\"]*\"" "failure" schema)
plant(zone "timestamp=\"([^\"]*)\"" "timestamp=\"\\1Z\"" schema)
plant(bare_less_than "message=\"" "message=\"<" schema)
plant(total "<testsuites name=\"dlc-check\" tests=\"[0-9]+\"" "<testsuites name=\"dlc-check\" tests=\"1\"" structure)
plant(verdict_gone "preflight\\.verdict" "preflight.other" structure)
plant(verdict_green "<failure type=\"FAILED\"[^>]*>[^<]*</failure>" "" structure)
message(STATUS "${count} reports are valid, 7 planted faults were refused")
