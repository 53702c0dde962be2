/* Prints the options as Python's types, for editors and type checkers: stepsim/_options.py. */
#include <stdio.h>
#include <string.h>

#include "stepsim.h"

static void print_choices(const char *const *choices) {
  printf("Literal[");
  for (int i = 0; choices[i] != NULL; i++)
    printf("%s\"%s\"", i > 0 ? ", " : "", choices[i]);
  printf("]");
}

static void print_type(const StepsimOption *option) {
  static const struct {
    const char *kind, *type;
  } types[] = {{"count", "Union[int, str]"},
               {"ratio", "Union[float, str]"},
               {"bytes", "Union[float, str]"},
               {"switch", "Union[bool, Literal[\"on\", \"off\"]]"},
               {"text", "str"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(option->kind, types[i].kind) == 0)
      printf("%s", types[i].type);
  if (option->choices != NULL)
    print_choices(option->choices);
}

static void print_name(const char *name) {
  for (; *name != '\0'; name++)
    putchar(*name == '-' ? '_' : *name);
}

/* `nth`: the options, from 0. */
static void print_class(const char *name, const char *what, const StepsimOption *(*nth)(size_t), int of_sweep) {
  printf("\n\nclass %s(TypedDict, total=False):\n    \"\"\"%s\"\"\"\n\n", name, what);
  const StepsimOption *option;
  for (size_t i = 0; (option = nth(i)) != NULL; i++) {
    const int is_list = (of_sweep && option->is_axis) || option->is_repeated;
    if (strcmp(option->name, "model") == 0 || strcmp(option->name, "cluster") == 0) /* arguments of their own */
      continue;
    printf("    ");
    print_name(option->name);
    printf(is_list ? ": Union[Sequence[" : ": ");
    print_type(option);
    if (is_list) {
      printf("], ");
      print_type(option);
      printf(", str]");
    }
    printf("  # %s\n", option->help);
  }
}

int main(void) {
  printf("# Made from the table of options.\n"
         "from typing import Literal, Sequence, TypedDict, Union\n");
  print_class("PlanOptions", "Of one plan.", stepsim_option, 0);
  print_class("SweepOptions", "Of many: a plan's take lists.", stepsim_sweep_option, 1);
  return 0;
}
